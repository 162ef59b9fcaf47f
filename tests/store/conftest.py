"""A migrated database for each test, with what the tests of the contract have."""

from __future__ import annotations

import pytest
from tests.contract import logs as kinds


@pytest.fixture
async def logs(database):
    """A log in Postgres, in a database of its own."""
    await kinds.migrate(database, kinds.PASSWORDS, partition_events=kinds.PARTITION_EVENTS)
    one = kinds.PostgresLogs(database)
    yield one
    await one.close()


@pytest.fixture(scope="session")
def common_database(postgres_dsn):
    """A migrated database whose log a test empties before it uses it."""
    dsn = kinds.apart(kinds.make_database(postgres_dsn))
    yield dsn
    kinds.apart(kinds.drop(postgres_dsn, kinds.urlsplit(dsn).path.lstrip("/")))


@pytest.fixture
async def common_logs(common_database):
    """A log in Postgres that no test relies on to be empty."""
    one = kinds.PostgresLogs(common_database)
    yield one
    await one.close()
