"""The log in memory: the twin of Postgres for simulation and tests.

Rule: deterministic; the clock is given, nothing is drawn, and nothing waits. Several stores over one
`MemoryLog` are several services over one database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from headrace.store import batch
from headrace.store.interface import (
    GENESIS,
    READ_EVENTS_MAX,
    Appended,
    Behind,
    Duplicate,
    Fenced,
    Forked,
    GuardRefused,
    Head,
    Ledger,
    NewEvent,
    NotAllowed,
    Snapshot,
    Stored,
    Term,
    Unavailable,
    chain,
)
from headrace.store.ledger_rows import GuardRow
from headrace.store.memory_log import MemoryLog, ServiceHead, ledger_of
from headrace.store.memory_vault import MemoryVault
from headrace.store.roles import event_roles, role_of

__all__ = ["Fault", "MemoryLog", "MemoryStore"]

STEP_US = 60_000_000  # less is no step: a busy server, a slow network

Fault = Callable[[str], Awaitable[None]]
"""Awaited at `<operation>.before` and `<operation>.after`; may raise `Unavailable`. Raised after an
append it makes a commit whose reply was lost."""

T = TypeVar("T")


class MemoryStore(MemoryVault):
    """A `Store` and a `Vault` over a `MemoryLog`.

    `clock` gives the database's time in microseconds. With a `role`, what its login may do is held
    to as in Postgres; without one everything may be done.
    """

    def __init__(
        self,
        log: MemoryLog,
        clock: Callable[[], int],
        boottime_us: Callable[[], int] | None = None,
        *,
        role: str = "",
        fault: Fault | None = None,
    ) -> None:
        self._log = log
        self._wall_us, self._boottime_us = clock, boottime_us
        self._stepped_us = 0
        self._role = role
        self._fault = fault
        self._closed = False
        self._types = frozenset(tag for tag, who in event_roles() if who == role)

    async def head(self) -> Head:
        """See `Store.head`."""
        return await self._at("head", self._head)

    async def read(self, after: int, limit: int = READ_EVENTS_MAX) -> list[Stored]:
        """See `Store.read`."""
        return await self._at("read", lambda: self._log.events[after : after + limit])

    async def read_stream(self, stream: str, after: int = 0, limit: int = 500) -> list[Stored]:
        """See `Store.read_stream`."""
        return await self._at("read_stream", lambda: self._read_stream(stream, after, limit))

    async def ledger(self) -> Ledger:
        """See `Store.ledger`."""
        return await self._at("ledger", lambda: ledger_of(self._log, self._clock()))

    async def append(
        self, service: str, epoch: int, basis: int, basis_hash: bytes, events: list[NewEvent]
    ) -> Appended:
        """See `Store.append`."""
        batch.check(events)
        return await self._at(
            "append", lambda: self._append(service, epoch, basis, basis_hash, events)
        )

    async def lead(self, service: str, holder: str, lease_s: float) -> Term | None:
        """See `Store.lead`."""
        return await self._at("lead", lambda: self._lead(service, holder, lease_s))

    async def renew(self, service: str, holder: str, epoch: int, lease_s: float) -> bool:
        """See `Store.renew`."""
        return await self._at("renew", lambda: self._renew(service, holder, epoch, lease_s))

    async def resign(self, service: str, holder: str, epoch: int) -> None:
        """See `Store.resign`."""
        await self._at("resign", lambda: self._renew(service, holder, epoch, 0.0))

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """See `Store.save_snapshot`."""
        await self._at("save_snapshot", lambda: self._save_snapshot(snapshot))

    async def load_snapshot(self, service: str, decision_version: str) -> Snapshot | None:
        """See `Store.load_snapshot`."""
        return await self._at("load_snapshot", lambda: self._load(service, decision_version))

    async def close(self) -> None:
        """See `Store.close`."""
        self._closed = True

    async def _at(self, operation: str, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("this store is closed")
        if self._fault is None:
            return work()
        await self._fault(f"{operation}.before")
        result = work()
        await self._fault(f"{operation}.after")
        return result

    def _clock(self) -> int:
        """The log's time."""
        return self._wall_us() + self._log.clock_offset_us

    def _keep_time(self) -> None:
        """Make up for a step of the clock since it was last read."""
        if self._boottime_us is None:
            return
        since_boot_us, read = self._boottime_us(), self._log.clock_read
        if read is not None:
            elapsed_us = since_boot_us - read[0]
            by_us = self._clock() - read[1] - elapsed_us
            if abs(by_us) > max(STEP_US, elapsed_us // 1000):
                last_us = self._log.events[-1].recorded_at_us if self._log.events else 0
                wanted_us = self._log.clock_offset_us - by_us
                self._log.clock_offset_us = max(wanted_us, last_us - self._wall_us())
                self._stepped_us += by_us
        self._log.clock_read = (since_boot_us, self._clock())

    def stepped_us(self) -> int:
        """See `Store.stepped_us`."""
        stepped_us, self._stepped_us = self._stepped_us, 0
        return stepped_us

    def _head(self) -> Head:
        position = len(self._log.events)
        hash_ = self._log.events[-1].hash if position else GENESIS
        return Head(position=position, hash=hash_, now_us=self._clock())

    def _read_stream(self, stream: str, after: int, limit: int) -> list[Stored]:
        events = self._log.streams.get(stream, [])
        return [self._log.chained(event) for event in events if event.position > after][:limit]

    def _append(
        self, service: str, epoch: int, basis: int, basis_hash: bytes, events: list[NewEvent]
    ) -> Appended:
        self._keep_time()
        self._check_role(service, events)
        head = self._check_basis(service, epoch, basis, basis_hash)
        originals = self._originals(events)
        self._book(event for index, event in enumerate(events) if index not in originals)
        stored = self._chain(events, originals)
        duplicates: list[Duplicate] = []
        for index, (original, same) in originals.items():
            position = original if original > 0 else stored[-original].position
            duplicates.append(Duplicate(index=index, position=position, same=same))
        if stored:
            head.last_position = self._log.events[-1].position
        return Appended(
            events=tuple(stored.values()),
            indexes=tuple(stored),
            duplicates=tuple(duplicates),
            now_us=self._clock(),
        )

    def _check_role(self, service: str, events: Iterable[NewEvent] = ()) -> None:
        if not self._role:
            return
        if self._role != role_of(service):
            raise NotAllowed(f"role {self._role} may not act as service {service}")
        for event in events:
            if event.type not in self._types:
                raise NotAllowed(f"role {self._role} may not append {event.type}")

    def _check_basis(self, service: str, epoch: int, basis: int, basis_hash: bytes) -> ServiceHead:
        head = self._log.services.get(service)
        if head is None or head.epoch != epoch:
            raise Fenced(f"epoch {epoch} of {service} is over")
        if head.last_position > basis:
            raise Behind(f"{service} appended at {head.last_position} which is after {basis}")
        if self._log.hash_at(basis) != basis_hash:
            raise Forked(f"the log at {basis} is not the one that was read")
        return head

    def _originals(self, events: list[NewEvent]) -> dict[int, tuple[int, bool]]:
        """By index of each repeated request: its original's position, or minus the original's
        index in this append, and whether the request is the same.
        """
        since_us = self._clock() - batch.REQUEST_KEPT_US
        requests = self._log.requests
        repeated: dict[int, tuple[int, bool]] = {}
        first: dict[tuple[str, str, str], int] = {}
        for index, event in enumerate(events):
            if not event.request_key:
                continue
            name = (event.project, event.request_source, event.request_key)
            made = requests.get(name)
            if made is not None and made[2] >= since_us:
                repeated[index] = (made[1], made[0] == event.request_hash)
            elif (original := first.setdefault(name, index)) != index:
                same = events[original].request_hash == event.request_hash
                repeated[index] = (-original, same)
        return repeated

    def _book(self, events: Iterable[NewEvent]) -> None:
        """Sum the changes per key, then make all of them or none."""
        changes: dict[str, tuple[int, int]] = {}
        for event in events:
            for guard in event.guards:
                delta, limit = changes.get(guard.key, (0, guard.limit))
                changes[guard.key] = (delta + guard.delta, min(limit, guard.limit))
        for key in sorted(changes):
            delta, limit = changes[key]
            if delta > 0 and self._used(key) + delta > limit:
                raise GuardRefused(key)
        for key, (delta, limit) in changes.items():
            before = self._log.guards.get(key)
            self._log.guards[key] = GuardRow(
                key=key,
                used=max(0, self._used(key) + delta),
                limit=limit if before is None or delta > 0 else before.limit,
                delta=delta,
            )

    def _used(self, key: str) -> int:
        row = self._log.guards.get(key)
        return row.used if row is not None else 0

    def _chain(
        self, events: list[NewEvent], left_out: dict[int, tuple[int, bool]]
    ) -> dict[int, Stored]:
        """Put the events at the end of the log, by index."""
        log = self._log
        last = log.events[-1] if log.events else None
        recorded_at_us = max(self._clock(), last.recorded_at_us if last else 0)
        hash_ = last.hash if last else GENESIS
        appended: dict[int, Stored] = {}
        for index, event in enumerate(events):
            if index in left_out:
                continue
            position = len(log.events) + 1
            hash_ = chain(hash_, position, recorded_at_us, event)
            stored = Stored(
                position=position,
                recorded_at_us=recorded_at_us,
                stream=event.stream,
                type=event.type,
                project=event.project,
                header=event.header,
                data=event.data,
                hash=hash_,
            )
            log.events.append(stored)
            log.streams[event.stream].append(stored)
            appended[index] = stored
            if event.request_key:
                name = (event.project, event.request_source, event.request_key)
                log.requests[name] = (event.request_hash, position, recorded_at_us)
        return appended

    def _lead(self, service: str, holder: str, lease_s: float) -> Term | None:
        self._check_role(service)
        self._keep_time()
        now_us = self._clock()
        head = self._log.services.setdefault(service, ServiceHead())
        if head.holder != holder:  # a clock that was set back makes no lease longer
            head.lease_until_us = min(head.lease_until_us, now_us + head.lease_us)
            if head.lease_until_us > now_us:
                return None
        head.epoch += 1
        head.holder = holder
        head.lease_us = int(lease_s * 1_000_000)
        head.lease_until_us = now_us + head.lease_us
        return Term(epoch=head.epoch, holder=holder)

    def _renew(self, service: str, holder: str, epoch: int, lease_s: float) -> bool:
        self._check_role(service)
        self._keep_time()
        head = self._log.services.get(service)
        if head is None or head.holder != holder or head.epoch != epoch:
            return False
        head.lease_us = int(lease_s * 1_000_000)
        head.lease_until_us = self._clock() + head.lease_us
        return True

    def _save_snapshot(self, snapshot: Snapshot) -> None:
        self._check_role(snapshot.service)
        kept = self._log.snapshots[snapshot.service]
        others = [
            other.position
            for other in kept.values()
            if other.position != snapshot.position
            and other.hash == self._log.hash_at(other.position)
        ]
        before = max(others, default=snapshot.position)
        self._log.snapshots[snapshot.service] = {
            before: kept.get(before, snapshot),
            snapshot.position: snapshot,
        }

    def _load(self, service: str, decision_version: str) -> Snapshot | None:
        kept = self._log.snapshots.get(service, {})
        for position in sorted(kept, reverse=True):
            snapshot = kept[position]
            is_ours = snapshot.decision_version == decision_version
            if is_ours and snapshot.hash == self._log.hash_at(position):
                return snapshot
        return None
