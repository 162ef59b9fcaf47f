"""The real thing and its twin, for tests that hold for both."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from tests.contract import buses as bus_kinds
from tests.contract import logs as kinds

from headrace.bus import nats_streams
from headrace.store import connection


@pytest.fixture(scope="session")
def log_database(postgres_dsn):
    """A superuser's DSN of the database that the tests of the contract share."""
    dsn = kinds.apart(kinds.make_database(postgres_dsn))
    yield dsn
    kinds.apart(kinds.drop(postgres_dsn, urlsplit(dsn).path.lstrip("/")))


@pytest.fixture(params=["memory", "postgres"])
async def logs(request, monkeypatch):
    """A log, and what only a test may do to it."""
    monkeypatch.setattr(connection, "CONNECT_S", kinds.WAIT_S)
    if request.param == "memory":
        one = kinds.MemoryLogs()
    else:
        one = kinds.PostgresLogs(request.getfixturevalue("log_database"))
        await kinds.empty(one.dsn)
    yield one
    await one.close()


@pytest.fixture(params=["memory", "nats"])
async def buses(request, monkeypatch):
    """Makes clients of one bus, each with a connection of its own."""
    monkeypatch.setattr(nats_streams, "FETCH_S", 0.5)  # consumers look sooner what has become
    monkeypatch.setattr(nats_streams, "JETSTREAM_S", bus_kinds.WAIT_S)
    if request.param == "memory":
        one = bus_kinds.MemoryBuses()
    else:
        one = bus_kinds.NatsBuses(request.getfixturevalue("nats_url"))
    yield one
    await one.close()
