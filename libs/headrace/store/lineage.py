"""Opens a platform's log: brings it up to date, unless it is not the log that the platform knows.

Rule: what is there is looked at before anything is changed, and nothing is guessed. A log that was
begun with another master key, that is empty or shorter than the platform has seen it, that has a hole,
or whose roles are another log's, is refused with what to do. A line of history begins with the log,
and anew when an administrator says that the log was restored or is a fork.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

import asyncpg
import msgspec

from headrace.events import Header, encode, stream_of, tag_of
from headrace.events.platform import FORKED, LogBegan, own_lines
from headrace.store import roles
from headrace.store.connection import connect, translated
from headrace.store.interface import GENESIS, READ_EVENTS_MAX, Stored, StoreError, follows
from headrace.store.migrate import MIGRATE_S, check_not_newer, migrate

LOOKED_AT_EVENTS = 100_000  # the last events among which a hole is looked for at every start
ROLE_LENGTH_MAX = 63

_BEGAN = tag_of(LogBegan)
_MARK = "Headrace, database "
_LOCK = (
    "SELECT pg_advisory_lock(1751474532, 3)"  # until the connection ends: one opens it at a time
)
_COLUMNS = "position, recorded_at_us, stream, type, project, header, data, hash"


class Refused(StoreError):
    """The log is not opened, and the line says why and what to do."""


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a platform knows of its log: how far it has seen it, and the hash at `hash_at` (hexadecimal;
    "": not known). `prefix` is what the names of its roles begin with.
    """

    lineage: str = ""
    epoch: int = 0
    position: int = 0
    hash: str = ""
    hash_at: int = 0
    prefix: str = roles.PREFIX


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """How a log is to be opened. `master_key` is its digest, see `digest_of`; `how` is restored or
    forked when an administrator says so; `rotate`: the roles are this log's whatever they say.
    `is_shared`: other databases of the server may be other platforms'.
    """

    passwords: dict[str, str]
    master_key: str
    known: Known = Known()
    how: str = ""
    rotate: bool = False
    is_shared: bool = True


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The log as it is; without a `prefix` there is none."""

    prefix: str = ""
    position: int = 0
    hash: bytes = GENESIS
    began: LogBegan | None = None


def digest_of(master_key: bytes) -> str:
    """What tells one master key from another, and nothing about it."""
    return hashlib.sha256(b"headrace master key " + master_key).hexdigest()[:32]


async def open_log(dsn: str, opening: Opening) -> Known:
    """Open it as its owner. Raises `Refused`, `SchemaTooNew`, `Unavailable`, `StoreError`."""
    connection = await connect(dsn, statement_s=MIGRATE_S, lock_s=MIGRATE_S)
    try:
        await connection.execute(_LOCK)
        found = await _found(connection)
        _check(found, opening)
        await _check_whole(connection, found, opening)
        prefix = await _prefix(connection, found, opening)
        await migrate(dsn, opening.passwords, prefix=prefix)
        if opening.is_shared:
            await _mark_roles(connection, prefix)
        return await _begun(connection, opening)
    except asyncpg.PostgresError as error:
        raise translated(error) from None
    finally:
        await connection.close()


async def lines_of(dsn: str) -> list[str]:
    """The `own_lines` of an opened log. Raises `Unavailable`, `StoreError`."""
    connection = await connect(dsn, statement_s=MIGRATE_S, lock_s=MIGRATE_S)
    try:
        rows = await connection.fetch(
            "SELECT data FROM headrace.event WHERE stream = 'log' AND type = $1 ORDER BY position",
            _BEGAN,
        )
    except asyncpg.PostgresError as error:
        raise translated(error) from None
    finally:
        await connection.close()
    return own_lines(msgspec.json.decode(row["data"], type=LogBegan) for row in rows)


async def _found(connection: Any) -> _Found:
    if not await connection.fetchval("SELECT to_regclass('headrace.log_head')"):
        return _Found()
    await check_not_newer(connection)
    has_prefix = await connection.fetchval(
        "SELECT true FROM information_schema.columns"
        " WHERE table_schema = 'headrace' AND table_name = 'log_head'"
        " AND column_name = 'role_prefix'"
    )
    head = await connection.fetchrow("SELECT * FROM headrace.log_head")
    began = await connection.fetchval(
        "SELECT data FROM headrace.event WHERE stream = 'log' AND type = $1"
        " ORDER BY position DESC LIMIT 1",
        _BEGAN,
    )
    return _Found(
        prefix=head["role_prefix"] if has_prefix else roles.PREFIX,
        position=head["position"],
        hash=head["hash"],
        began=msgspec.json.decode(began, type=LogBegan) if began else None,
    )


def _check(found: _Found, opening: Opening) -> None:
    """Pure: whether this is the log that the platform knows."""
    known, began = opening.known, found.began
    if began is not None and began.master_key not in ("", opening.master_key):
        raise Refused(
            "this log was begun with another master key, so it is another platform's, or its keys"
            " were lost: use the folder that it was begun with (with its secrets), or a database of"
            " your own"
        )
    if opening.how and not found.position:
        raise Refused(f"the log is empty: there is nothing that could be {opening.how}")
    if opening.how or not known.lineage:
        return
    seen = f"this folder has seen it up to position {known.position} (lineage {known.lineage[:8]})"
    if not found.position:
        raise Refused(
            f"the log is empty, and {seen}: put its database back, from a backup if need be; for a"
            " platform that begins anew take another folder"
        )
    line = began.lineage if began is not None else ""
    if line != known.lineage and (began is None or began.epoch <= known.epoch):
        raise Refused(
            f"the log is in lineage {line[:8] or '-'}, and {seen}: put the right database back; if"
            " it is to go on from this one, headrace up --restored"
        )
    if line == known.lineage and found.position < known.position:
        raise Refused(
            f"the log ends at position {found.position}, and {seen}: it was restored from an older"
            " copy. If the newer one is gone for good, headrace up --restored goes on from this one;"
            " else put the newer one back"
        )


async def _check_whole(connection: Any, found: _Found, opening: Opening) -> None:
    """Refuse a log with a hole. All of it is read when it was copied, else its end is counted."""
    way_out = "put a whole copy back (headrace verify shows where it breaks)"
    if not found.position:
        return
    hash_ = await connection.fetchval(
        "SELECT hash FROM headrace.event WHERE position = $1", found.position
    )
    first = max(1, found.position - LOOKED_AT_EVENTS + 1)
    count = await connection.fetchval(
        "SELECT count(*) FROM headrace.event WHERE position >= $1", first
    )
    if hash_ != found.hash or count != found.position - first + 1:
        raise Refused(f"the log has a hole between {first} and {found.position}: {way_out}")
    known = opening.known
    if not opening.how and known.hash and 0 < known.hash_at <= found.position:
        there = await connection.fetchval(
            "SELECT hash FROM headrace.event WHERE position = $1", known.hash_at
        )
        if there is None or there.hex() != known.hash:
            raise Refused(
                f"position {known.hash_at} of the log is not what this folder has seen there:"
                " put the right database back; if it is to go on from this one, headrace up"
                " --restored"
            )
    if opening.how:
        await _read_all(connection, way_out)


async def _read_all(connection: Any, way_out: str) -> None:
    position, hash_ = 0, GENESIS
    query = (
        f"SELECT {_COLUMNS} FROM headrace.event"  # noqa: S608 - constants only
        " WHERE position > $1 ORDER BY position LIMIT $2"
    )
    while rows := await connection.fetch(query, position, READ_EVENTS_MAX):
        for row in rows:
            event = Stored(**dict(row))
            if not follows(event, position, hash_):
                raise Refused(f"the log breaks after position {position}: {way_out}")
            position, hash_ = event.position, event.hash


async def _prefix(connection: Any, found: _Found, opening: Opening) -> str:
    """What the names of the log's roles begin with. Refuses roles that are another log's."""
    if not opening.is_shared:
        return found.prefix or roles.PREFIX
    database = await connection.fetchval("SELECT current_database()")
    prefix = found.prefix or roles.PREFIX
    owner = await _owner_of(connection, prefix, database)
    if owner is None or opening.rotate or (found.prefix and owner in ("", database)):
        return prefix
    if not found.prefix or opening.how == FORKED:
        prefix = f"{roles.PREFIX}{database}_"
        if max(len(roles.named(role, prefix)) for role in roles.ROLES) > ROLE_LENGTH_MAX:
            raise Refused(f"the name of the database {database} is too long for roles of its own")
        owner = await _owner_of(connection, prefix, database)
        if owner is None:
            return prefix
    raise Refused(
        f"the roles {prefix}… of this server belong to {f'database {owner}' if owner else 'a log'}"
        " already: to give them this platform's passwords all the same, which locks out whoever"
        " uses them now, say --rotate"
    )


async def _owner_of(connection: Any, prefix: str, database: str) -> str | None:
    """The database that these roles are of, another one before this one; "" when they do not say,
    None without such roles.
    """
    names = [roles.named(role, prefix) for role in roles.ROLES]
    rows = await connection.fetch(
        "SELECT shobj_description(oid, 'pg_authid') AS said FROM pg_roles"
        " WHERE rolname = any($1::text[])",
        names,
    )
    if not rows:
        return None
    said = {(row["said"] or "").removeprefix(_MARK) for row in rows} - {""}
    return min(said - {database} or said, default="")


async def _mark_roles(connection: Any, prefix: str) -> None:
    """Let the roles say whose they are."""
    for role in roles.ROLES:
        comment = await connection.fetchval(
            "SELECT format('COMMENT ON ROLE %I IS %L', $1::text, $2::text || current_database())",
            roles.named(role, prefix),
            _MARK,
        )
        await connection.execute(comment)


async def _begun(connection: Any, opening: Opening) -> Known:
    """The line that the log is in, begun now if it has none yet or a new one is wanted."""
    found = await _found(connection)
    began, position, hash_ = found.began, found.position, found.hash
    if began is None or opening.how:
        before = began.lineage if began is not None else opening.known.lineage
        earlier = max(began.epoch if began is not None else 0, opening.known.epoch)
        began = LogBegan(
            lineage=secrets.token_hex(16),
            epoch=max(earlier + 1, time.time_ns() // 1_000_000) if opening.how else earlier + 1,
            how=opening.how or "new",
            before=before,
            master_key=opening.master_key,
        )
        position, hash_ = await _append(connection, began)
    return Known(
        lineage=began.lineage,
        epoch=began.epoch,
        position=position,
        hash=hash_.hex(),
        hash_at=position,
        prefix=found.prefix,
    )


async def _append(connection: Any, event: LogBegan) -> tuple[int, bytes]:
    """Append as the log's owner: no service may append this."""
    stream, header, data = stream_of(event), encode(Header(actor="owner")), encode(event)
    async with connection.transaction():
        chained = await connection.fetchrow(
            "SELECT * FROM headrace.chain("
            "headrace.content_hashes($1, $2, $3, $4, $5), ARRAY[NULL]::bigint[])",
            [stream], [_BEGAN], [""], [header], [data],
        )  # fmt: skip
        position, hash_ = chained["p_positions"][0], chained["p_hashes"][0]
        await connection.execute(
            f"INSERT INTO headrace.event ({_COLUMNS})"  # noqa: S608 - constants only
            " VALUES ($1, $2, $3, $4, '', $5, $6, $7)",
            position, chained["p_recorded_at_us"], stream, _BEGAN, header, data, hash_,
        )  # fmt: skip
    return position, hash_
