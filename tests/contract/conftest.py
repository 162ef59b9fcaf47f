"""The real thing and its twin, for tests that hold for both."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from tests.contract import logs as kinds


@pytest.fixture(scope="session")
def log_template(postgres_dsn):
    name = kinds.apart(kinds.make_template(postgres_dsn))
    yield name
    kinds.apart(kinds.drop(postgres_dsn, name))


@pytest.fixture
def log_database(postgres_dsn, log_template):
    """A superuser's DSN of a fresh, migrated database."""
    dsn = kinds.apart(kinds.copy_of(postgres_dsn, log_template))
    yield dsn
    kinds.apart(kinds.drop(postgres_dsn, urlsplit(dsn).path.lstrip("/")))


@pytest.fixture(params=["memory", "postgres"])
async def logs(request):
    """A log, and what only a test may do to it."""
    if request.param == "memory":
        one = kinds.MemoryLogs()
    else:
        one = kinds.PostgresLogs(request.getfixturevalue("log_database"))
    yield one
    await one.close()
