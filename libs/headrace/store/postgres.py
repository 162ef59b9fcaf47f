"""The log in Postgres, through the functions that the migrations made.

Rule: an append is one round trip on a connection of its own. After `Unavailable` its outcome is
unknown: the caller reads on, and a blind retry is refused as `Behind`.
"""

from __future__ import annotations

from typing import Any, Self

from headrace.store import batch
from headrace.store.boottime import boottime
from headrace.store.connection import Lane
from headrace.store.interface import (
    GENESIS,
    READ_EVENTS_MAX,
    Appended,
    ClockStepped,
    Duplicate,
    Forked,
    Head,
    Ledger,
    NewEvent,
    Snapshot,
    Stored,
    Term,
    follows,
)
from headrace.store.migrate import check_schema
from headrace.store.postgres_ledger import read_ledger
from headrace.store.postgres_vault import PostgresVault

_COLUMNS = "position, recorded_at_us, stream, type, project, header, data, hash"
_HEAD = "SELECT position, hash, headrace.now_us() FROM headrace.log_head"
_READ = (  # gapless positions bound the range, so that other partitions are not looked at
    f"SELECT {_COLUMNS} FROM headrace.event"  # noqa: S608 - constants only
    " WHERE position > $1 AND position <= $1 + $2::bigint ORDER BY position"
)
_READ_STREAM = (  # with the hash of the event before each: what a stream has is found by a column
    f"SELECT {_COLUMNS}, (SELECT p.hash FROM headrace.event p"  # noqa: S608 - constants only
    " WHERE p.position = e.position - 1) FROM headrace.event e"
    " WHERE stream = $1 AND position > $2 ORDER BY position LIMIT $3"
)
_APPEND = (
    "SELECT * FROM headrace.append("
    "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)"
)
_KEEP_TIME = "SELECT headrace.keep_time($1, $2, $3)"
# Who leads, or would, looks several times a second: the clock is kept in the same round trip, before it is read.
_LEAD = (
    "SELECT k.stepped_us, headrace.lead($1, $2, $3)"
    " FROM (SELECT headrace.keep_time($1, $4, $5) AS stepped_us OFFSET 0) k"
)
_RENEW = (
    "SELECT k.stepped_us, headrace.renew($1, $2, $3, $4)"
    " FROM (SELECT headrace.keep_time($1, $5, $6) AS stepped_us OFFSET 0) k"
)
_SAVE_SNAPSHOT = "SELECT headrace.save_snapshot($1, $2, $3, $4, $5)"
_LOAD_SNAPSHOT = (
    "SELECT position, hash, data FROM headrace.snapshot"
    " WHERE service = $1 AND decision_version = $2 AND headrace.log_has(position, hash)"
    " ORDER BY position DESC LIMIT 1"
)


class PostgresStore(PostgresVault):
    """A `Store` and a `Vault` over one Postgres database. Make it with `connect`."""

    def __init__(self, dsn: str, connections: int) -> None:
        self._writing = Lane(dsn, check_schema)
        others = [Lane(dsn, check_schema) for _ in range(connections - 1)]
        self._others = others or [self._writing]
        self._stepped_us = 0

    @classmethod
    async def connect(cls, dsn: str, *, connections: int = 2) -> Self:
        """A store over `connections` connections, one of them for appends, the others made when
        needed. Raises `Unavailable`, `SchemaTooNew`, `StoreError`.
        """
        store = cls(dsn, connections)
        await store.head()
        return store

    async def head(self) -> Head:
        """See `Store.head`."""
        position, hash_, now_us = await self._row(_HEAD)
        return Head(position=position, hash=hash_, now_us=now_us)

    async def read(self, after: int, limit: int = READ_EVENTS_MAX) -> list[Stored]:
        """See `Store.read`."""
        rows = await self._idlest().run(lambda c: c.fetch(_READ, after, limit))
        return [_stored(row) for row in rows]

    async def read_stream(self, stream: str, after: int = 0, limit: int = 500) -> list[Stored]:
        """See `Store.read_stream`."""
        rows = await self._idlest().run(lambda c: c.fetch(_READ_STREAM, stream, after, limit))
        events = []
        for row in rows:
            event = _stored(row)
            if not follows(event, event.position - 1, row[-1] or GENESIS):
                raise Forked(f"position {event.position} does not chain onto the one before it")
            events.append(event)
        return events

    async def ledger(self) -> Ledger:
        """See `Store.ledger`."""
        return await self._idlest().run(read_ledger)

    async def append(
        self, service: str, epoch: int, basis: int, basis_hash: bytes, events: list[NewEvent]
    ) -> Appended:
        """See `Store.append`."""
        batch.check(events)
        arguments = _arguments(events)

        async def append(connection: Any) -> Any:
            since_boot = boottime()
            return await connection.fetchrow(
                _APPEND, service, epoch, basis, basis_hash, *arguments, *since_boot
            )

        try:
            row = await self._writing.run(append)
        except ClockStepped:
            await self._keep_time(service)
            row = await self._writing.run(append)
        return _appended(row, events)

    def stepped_us(self) -> int:
        """See `Store.stepped_us`."""
        stepped_us, self._stepped_us = self._stepped_us, 0
        return stepped_us

    async def _keep_time(self, service: str) -> None:
        (stepped_us,) = await self._row(_KEEP_TIME, service, *boottime())
        self._stepped_us += stepped_us

    async def lead(self, service: str, holder: str, lease_s: float) -> Term | None:
        """See `Store.lead`."""
        stepped_us, epoch = await self._row(_LEAD, service, holder, lease_s, *boottime())
        self._stepped_us += stepped_us
        return None if epoch is None else Term(epoch=epoch, holder=holder)

    async def renew(self, service: str, holder: str, epoch: int, lease_s: float) -> bool:
        """See `Store.renew`."""
        arguments = (service, holder, epoch, lease_s, *boottime())
        stepped_us, renewed = await self._row(_RENEW, *arguments)
        self._stepped_us += stepped_us
        return bool(renewed)

    async def resign(self, service: str, holder: str, epoch: int) -> None:
        """See `Store.resign`."""
        await self.renew(service, holder, epoch, 0.0)

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """See `Store.save_snapshot`."""
        s = snapshot
        await self._row(_SAVE_SNAPSHOT, s.service, s.position, s.hash, s.decision_version, s.data)

    async def load_snapshot(self, service: str, decision_version: str) -> Snapshot | None:
        """See `Store.load_snapshot`."""
        row = await self._row(_LOAD_SNAPSHOT, service, decision_version)
        if row is None:
            return None
        return Snapshot(
            service=service,
            position=row[0],
            hash=row[1],
            decision_version=decision_version,
            data=row[2],
        )

    async def close(self) -> None:
        """See `Store.close`."""
        for lane in (self._writing, *self._others):
            await lane.close()

    async def _row(self, query: str, *arguments: Any) -> Any:
        return await self._idlest().run(lambda c: c.fetchrow(query, *arguments))

    def _idlest(self) -> Lane:
        return min(self._others, key=lambda lane: lane.callers)


def _stored(row: Any) -> Stored:
    """One row whose first columns are `_COLUMNS`."""
    position, recorded_at_us, stream, type_, project, header, data, hash_, *_ = row
    return Stored(
        position=position,
        recorded_at_us=recorded_at_us,
        stream=stream,
        type=type_,
        project=project,
        header=header,
        data=data,
        hash=hash_,
    )


def _arguments(events: list[NewEvent]) -> tuple[list[Any], ...]:
    """The columns of an append. Those of requests are empty when no event is one."""
    asks = any(event.request_key for event in events)
    guards = [(i, guard) for i, event in enumerate(events, start=1) for guard in event.guards]
    return (
        [event.stream for event in events],
        [event.type for event in events],
        [event.project for event in events],
        [event.header for event in events],
        [event.data for event in events],
        [event.request_source for event in events] if asks else [],
        [event.request_key for event in events] if asks else [],
        [event.request_hash for event in events] if asks else [],
        [i for i, _ in guards],
        [guard.key for _, guard in guards],
        [guard.delta for _, guard in guards],
        [guard.limit for _, guard in guards],
    )


def _appended(row: Any, events: list[NewEvent]) -> Appended:
    positions, hashes, same, recorded_at_us, now_us = row
    stored: list[Stored] = []
    indexes: list[int] = []
    duplicates: list[Duplicate] = []
    for index, event in enumerate(events):
        if hashes[index] is None:
            duplicates.append(Duplicate(index=index, position=positions[index], same=same[index]))
            continue
        indexes.append(index)
        stored.append(
            Stored(
                position=positions[index],
                recorded_at_us=recorded_at_us,
                stream=event.stream,
                type=event.type,
                project=event.project,
                header=event.header,
                data=event.data,
                hash=hashes[index],
            )
        )
    return Appended(
        events=tuple(stored), indexes=tuple(indexes), duplicates=tuple(duplicates), now_us=now_us
    )
