"""A migrated database for each test, with what the tests of the contract have."""

from __future__ import annotations

import pytest
from tests.contract import logs as kinds

from headrace.store import connection


@pytest.fixture
async def logs(database, monkeypatch):
    """A log in Postgres, in a database of its own."""
    monkeypatch.setattr(connection, "CONNECT_S", kinds.WAIT_S)
    await kinds.migrate(database, kinds.PASSWORDS, partition_events=kinds.PARTITION_EVENTS)
    one = kinds.PostgresLogs(database)
    yield one
    await one.close()


@pytest.fixture
def patient(monkeypatch):
    """Who waits for a lock is not sent away before the test has seen it wait."""
    for limit in ("lock_s", "statement_s"):
        monkeypatch.setitem(connection.connect.__kwdefaults__, limit, kinds.WAIT_S)


@pytest.fixture(scope="session")
def common_database(postgres_dsn):
    """A migrated database whose log a test empties before it uses it."""
    dsn = kinds.apart(kinds.make_database(postgres_dsn))
    yield dsn
    kinds.apart(kinds.drop(postgres_dsn, kinds.urlsplit(dsn).path.lstrip("/")))


@pytest.fixture
async def common_logs(common_database, monkeypatch):
    """A log in Postgres that no test relies on to be empty."""
    monkeypatch.setattr(connection, "CONNECT_S", kinds.WAIT_S)
    one = kinds.PostgresLogs(common_database)
    yield one
    await one.close()
