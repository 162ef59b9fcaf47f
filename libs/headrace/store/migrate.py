"""Brings a database to the schema of this Headrace, and its roles to what `roles` says.

Rule: a migration is a numbered SQL file and never changes once it was released; all that are
missing are applied in one transaction, by one process at a time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg

from headrace.store import roles
from headrace.store.connection import connect, translated
from headrace.store.interface import SchemaTooNew, StoreError

PARTITION_EVENTS = 5_000_000  # about 3.5 GB with indexes at 450 bytes an event
MIGRATE_S = 60.0  # one statement of a migration, or the wait for another process that migrates

_FOLDER = Path(__file__).with_name("migrations")
_LOCK = "SELECT pg_advisory_xact_lock(1751474532, 1)"  # the first half spells "head"


async def migrate(
    dsn: str,
    passwords: Mapping[str, str],
    *,
    partition_events: int = PARTITION_EVENTS,
    prefix: str = "",
) -> int:
    """Apply what is missing, make every role, and set the given passwords (role to password).

    `dsn` is an administrator's. A role without a password keeps the one it has, or cannot log in.
    `partition_events` holds for partitions made from now on. `prefix` is what the roles' names begin
    with from now on (empty: as before). Returns the schema's version. Raises
    `SchemaTooNew`, `Unavailable`, `StoreError`.
    """
    if unknown := sorted(set(passwords) - set(roles.ROLES)):
        raise StoreError(f"no such role: {', '.join(unknown)}; there are {', '.join(roles.ROLES)}")
    connection = await connect(dsn, statement_s=MIGRATE_S, lock_s=MIGRATE_S)
    try:
        async with connection.transaction():
            await _apply_missing(connection)
            await _set_partitions(connection, partition_events)
            if prefix:
                await connection.execute("UPDATE headrace.log_head SET role_prefix = $1", prefix)
            prefix = await connection.fetchval("SELECT role_prefix FROM headrace.log_head")
            await _make_roles(connection, passwords, prefix)
            await _fill_event_roles(connection, prefix)
    except asyncpg.PostgresError as error:
        raise translated(error) from None
    finally:
        await connection.close()
    return latest()


async def check_not_newer(connection: Any) -> int:
    """The schema's version. Raises `SchemaTooNew` when it is newer than this Headrace."""
    version: int = await connection.fetchval("SELECT max(version) FROM headrace.schema_version")
    if version is not None and version > latest():
        raise SchemaTooNew(
            f"the database has schema {version}, this Headrace knows up to {latest()}: upgrade it"
        )
    return version or 0


async def check_schema(connection: Any) -> None:
    """Raise `SchemaTooNew` when the database is newer than this Headrace, `StoreError` when it is
    older or was never prepared.
    """
    try:
        version = await check_not_newer(connection)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        raise StoreError("this database has no Headrace log; headrace up prepares it") from None
    if version < latest():
        raise StoreError(
            f"the database has schema {version}, this Headrace needs {latest()}:"
            " headrace up migrates it"
        )


def latest() -> int:
    """The version of the last migration."""
    return len(_migrations())


def _migrations() -> list[Path]:
    files = sorted(_FOLDER.glob("*.sql"))
    for number, file in enumerate(files, start=1):
        if not re.match(f"{number:04}_", file.name):
            raise StoreError(f"migration {number} is missing: found {file.name}")
    return files


async def _apply_missing(connection: Any) -> None:
    await connection.execute(_LOCK)
    await connection.execute("CREATE SCHEMA IF NOT EXISTS headrace")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS headrace.schema_version"
        " (version int PRIMARY KEY, name text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )
    done = await connection.fetchval("SELECT max(version) FROM headrace.schema_version") or 0
    if done > latest():
        await check_schema(connection)
    for number, file in enumerate(_migrations()[done:], start=done + 1):
        await connection.execute(file.read_text())
        await connection.execute(
            "INSERT INTO headrace.schema_version (version, name) VALUES ($1, $2)", number, file.stem
        )


async def _set_partitions(connection: Any, partition_events: int) -> None:
    await connection.execute("UPDATE headrace.log_head SET partition_events = $1", partition_events)
    if not await connection.fetchval("SELECT partitioned_to FROM headrace.log_head"):
        await connection.execute("SELECT headrace.add_partition()")


async def _make_roles(connection: Any, passwords: Mapping[str, str], prefix: str) -> None:
    await connection.execute(
        "REVOKE ALL ON ALL TABLES IN SCHEMA headrace FROM PUBLIC;"
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA headrace FROM PUBLIC"
    )
    for role in roles.ROLES:
        name = roles.named(role, prefix)
        if not await connection.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", name):
            await connection.execute(f'CREATE ROLE "{name}" NOLOGIN')
        if role in passwords:
            alter = await connection.fetchval(
                "SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', $1::text, $2::text)",
                name,
                passwords[role],
            )
            await connection.execute(alter)
        await connection.execute(
            f'REVOKE ALL ON ALL TABLES IN SCHEMA headrace FROM "{name}";'
            f'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA headrace FROM "{name}"'
        )
        for privilege in roles.privileges(role):
            await connection.execute(f'GRANT {privilege} TO "{name}"')


async def _fill_event_roles(connection: Any, prefix: str) -> None:
    pairs = roles.event_roles()
    await connection.execute("DELETE FROM headrace.event_role")
    await connection.execute(
        "INSERT INTO headrace.event_role (type, role) SELECT * FROM unnest($1::text[], $2::text[])",
        [tag for tag, _ in pairs],
        [roles.named(role, prefix) for _, role in pairs],
    )
