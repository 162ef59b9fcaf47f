"""Several platforms' logs in one Postgres, and logs that are not the folder's: prepared by command."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.conftest import run_sql, with_database
from tests.deploy import platform

BUS = "nats://bus:4222"
TIMEOUT_S = 60.0


class Deployment:
    """One folder, and the log that it is prepared over."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.dsn = folder, dsn

    def prepare(self, *said: str) -> str:
        """What `prepare.py` says, which is to succeed."""
        done = platform.prepare(self.folder, self.dsn, BUS, said=said)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *said: str) -> str:
        """The one line that it refuses with."""
        done = platform.prepare(self.folder, self.dsn, BUS, said=said)
        assert done.returncode == 1, done.stdout
        assert done.stderr.startswith("prepare: refused: ")
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def head(self, *, role: str = "operator") -> int:
        """How far the log is, as one of its own roles reads it. Raises what a wrong password does."""
        dsn = (self.folder / "secrets" / "operator.dsn").read_text()
        if role != "operator":
            lines = (self.folder / role / "env").read_text().splitlines()
            dsn = next(line for line in lines if line.startswith("HEADRACE_PG_DSN=")).split("'")[1]
        return asyncio.run(_head(dsn))

    def is_locked_out(self) -> bool:
        """Whether its roles have other passwords than it."""
        try:
            self.head()
        except asyncpg.InvalidPasswordError:
            return True
        return False

    @property
    def database(self) -> str:
        return urlsplit(self.dsn).path.lstrip("/")

    @property
    def seen(self) -> dict[str, object]:
        """What the folder knows of its log."""
        return dict(json.loads((self.folder / "log.json").read_text()))


@pytest.fixture
def first(tmp_path: Path, database: str) -> Deployment:
    """A platform in a database of the run's one Postgres."""
    one = Deployment(tmp_path / "first", database)
    one.prepare()
    return one


@pytest.fixture
def spare(postgres_dsn: str, database: str) -> Iterator[str]:
    """The name of a second database of that server, which the test may make; dropped after it."""
    name = f"{urlsplit(database).path.lstrip('/')}_b"
    yield name
    run_sql(postgres_dsn, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def test_a_second_database_has_roles_of_its_own(
    first: Deployment, spare: str, postgres_dsn: str, tmp_path: Path
) -> None:
    run_sql(postgres_dsn, f'CREATE DATABASE "{spare}"')
    second = Deployment(tmp_path / "second", with_database(postgres_dsn, spare))
    second.prepare()
    for role in ("operator", "admission", "gateway"):
        assert first.head(role=role) == 1
        assert second.head(role=role) == 1
    assert first.seen["lineage"] != second.seen["lineage"]
    first.prepare()
    second.prepare()
    assert (first.head(), second.head()) == (1, 1)


def test_roles_of_another_log_change_hands_only_by_rotate(
    first: Deployment, spare: str, postgres_dsn: str, tmp_path: Path
) -> None:
    run_sql(postgres_dsn, f'CREATE DATABASE "{spare}" TEMPLATE "{first.database}"')
    copy = Deployment(tmp_path / "copy", with_database(postgres_dsn, spare))
    shutil.copytree(first.folder, copy.folder)
    for password in (copy.folder / "secrets").glob("postgres-*.password"):
        password.unlink()

    said = copy.refused()
    assert f"belong to database {first.database} already" in said
    assert "--rotate" in said
    assert first.head() == 1

    copy.prepare("--rotate")
    assert copy.head() == 1
    assert first.is_locked_out()
    assert f"belong to database {spare} already" in first.refused()
    first.prepare("--rotate")
    assert first.head() == 1
    assert copy.is_locked_out()


def test_an_older_log_is_prepared_only_as_restored(
    first: Deployment, spare: str, postgres_dsn: str
) -> None:
    run_sql(postgres_dsn, f'CREATE DATABASE "{spare}" TEMPLATE "{first.database}"')
    first.prepare("--restored")  # one event more
    before = first.seen
    run_sql(postgres_dsn, f'DROP DATABASE "{first.database}"')
    run_sql(postgres_dsn, f'ALTER DATABASE "{spare}" RENAME TO "{first.database}"')

    said = first.refused()
    assert "prepare.py --restored" in said
    assert first.seen == before
    assert first.head() == 1

    first.prepare("--restored")
    assert first.head() == 2
    assert first.seen["lineage"] != before["lineage"]
    first.prepare()
    assert first.head() == 2


def test_an_emptied_log_is_not_begun_anew(first: Deployment, postgres_dsn: str) -> None:
    run_sql(postgres_dsn, f'DROP DATABASE "{first.database}"')
    run_sql(postgres_dsn, f'CREATE DATABASE "{first.database}"')
    for said in ((), ("--restored",)):
        assert "the log is empty" in first.refused(*said)


def test_a_log_gets_no_new_master_key(first: Deployment, tmp_path: Path) -> None:
    other = Deployment(tmp_path / "other", first.dsn)
    for said in ((), ("--restored",), ("--rotate",)):
        assert "begun with another master key" in other.refused(*said)
    assert first.head() == 1

    key = first.folder / "secrets" / "master.key"
    kept = key.rename(first.folder / "kept.key")
    said = first.refused("--restored")
    assert str(key) in said
    assert not key.exists(), "none was made"
    kept.rename(key)
    first.prepare()
    assert first.head() == 1


async def _head(dsn: str) -> int:
    connection = await asyncpg.connect(dsn, timeout=TIMEOUT_S, command_timeout=TIMEOUT_S)
    try:
        return int(await connection.fetchval("SELECT position FROM headrace.log_head"))
    finally:
        await connection.close()
