"""A database is prepared once, by one process at a time, and its roles may do what is theirs."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.contract import logs as kinds
from tests.contract.services import event, leader

from headrace.events import EVENTS, tag_of
from headrace.events.platform import LogBegan
from headrace.store import roles
from headrace.store.interface import SchemaTooNew, StoreError
from headrace.store.migrate import latest, migrate
from headrace.store.postgres import PostgresStore


async def as_role(logs, role, statement):
    """One statement under the service's own login."""
    await logs.wire.open()
    connection = await asyncpg.connect(
        host="127.0.0.1",
        port=logs.wire.port,
        user=role,
        password=kinds.PASSWORDS[role],
        database=urlsplit(logs.dsn).path.lstrip("/"),
    )
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


async def test_several_processes_may_migrate_at_once_and_again(database):
    assert await asyncio.gather(*(migrate(database, {}) for _ in range(3))) == [latest()] * 3
    versions = await kinds.execute(
        database, "SELECT version FROM headrace.schema_version ORDER BY 1"
    )
    assert [row[0] for row in versions] == list(range(1, latest() + 1))


async def test_migrating_again_keeps_the_log(logs):
    admission = await leader(logs)
    await admission.append(event(1))
    await migrate(logs.dsn, kinds.PASSWORDS)
    await admission.append(event(2))
    assert (await admission.store.head()).position == 2


async def test_a_database_without_a_log_is_refused(database):
    with pytest.raises(StoreError, match="headrace up prepares it"):
        await PostgresStore.connect(database)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ("INSERT INTO headrace.schema_version VALUES (9999, 'later')", SchemaTooNew, "upgrade it"),
        ("DELETE FROM headrace.schema_version WHERE version > 1", StoreError, "migrates it"),
    ],
)
async def test_a_schema_that_is_not_this_one_is_refused(logs, change, error, said):
    await kinds.execute(logs.dsn, change)
    with pytest.raises(error, match=said):
        await logs.store("admission")


async def test_a_newer_schema_is_not_migrated_backwards(logs):
    await kinds.execute(logs.dsn, "INSERT INTO headrace.schema_version VALUES (9999, 'later')")
    with pytest.raises(SchemaTooNew):
        await migrate(logs.dsn, {})


async def test_a_password_is_set_anew_and_others_are_kept(logs):
    role = "headrace_metrics"
    await migrate(logs.dsn, {role: 'it\'s \\ "new"'})
    with pytest.raises(asyncpg.InvalidPasswordError):
        await as_role(logs, role, "SELECT 1")
    await migrate(logs.dsn, {role: kinds.PASSWORDS[role]})
    assert await as_role(logs, role, "SELECT 1")
    assert await as_role(logs, "headrace_quota", "SELECT 1")


async def test_a_password_for_nobody_is_refused(database):
    with pytest.raises(StoreError, match="no such role: headrace_nobody"):
        await migrate(database, {"headrace_nobody": "x"})


async def test_each_type_is_appended_by_its_owner_and_nobody_else(common_logs):
    rows = await kinds.execute(common_logs.dsn, "SELECT type, role FROM headrace.event_role")
    allowed = {(row[0], row[1]) for row in rows}
    of_services = {tag_of(event) for event in EVENTS} - {tag_of(LogBegan)}  # the owner's alone
    assert {tag for tag, _ in allowed} == of_services
    assert ("job.requested.v1", "headrace_admission") in allowed
    assert {role for tag, role in allowed if tag == "job.requested.v1"} == {"headrace_admission"}
    led = {role for tag, role in allowed if tag == "service.led.v1"}
    assert led == {roles.role_of(name) for name in roles.DECIDING}


@pytest.mark.parametrize("role", roles.ROLES)
async def test_every_role_reads_the_log(common_logs, role):
    await as_role(common_logs, role, "SELECT * FROM headrace.event, headrace.log_head")


FORBIDDEN = (
    "INSERT INTO headrace.event DEFAULT VALUES",
    "UPDATE headrace.event SET data = ''",
    "DELETE FROM headrace.event",
    "TRUNCATE headrace.event",
    "INSERT INTO headrace.event_from_1 DEFAULT VALUES",
    "SELECT * FROM headrace.event_from_1",
    "UPDATE headrace.log_head SET position = 0",
    "UPDATE headrace.service_head SET epoch = 9",
    "UPDATE headrace.guard SET used = 0",
    "DELETE FROM headrace.request",
    "INSERT INTO headrace.event_role VALUES ('x', 'headrace_quota')",
    "INSERT INTO headrace.snapshot DEFAULT VALUES",
    "SELECT headrace.add_partition()",
    "SELECT headrace.book('{gpu/a}', '{-1000}', '{1000}')",
    "SELECT headrace.chain('{x}', '{NULL}')",
    "CREATE TABLE headrace.mine ()",
)


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_no_role_goes_around_the_functions(common_logs, statement):
    for role in ("headrace_placement", "headrace_gateway", "headrace_operator"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await as_role(common_logs, role, statement)


@pytest.mark.parametrize("role", ["headrace_gateway", "headrace_operator"])
async def test_a_reading_role_writes_nothing(common_logs, role):
    for statement in (
        "SELECT headrace.lead('admission', 'x', 1)",
        "SELECT headrace.renew('admission', 'x', 1, 1)",
        "SELECT headrace.save_snapshot('admission', 0, '', '', '')",
        "SELECT * FROM headrace.project_key",
        "SELECT * FROM headrace.secret",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await as_role(common_logs, role, statement)
