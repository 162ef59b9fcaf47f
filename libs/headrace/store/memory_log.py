"""What the in-memory stores of several services share: the log, and what is kept beside it."""

from __future__ import annotations

import hashlib
from collections import defaultdict

from headrace.store.interface import GENESIS, Forked, Head, Ledger, Snapshot, Stored, follows
from headrace.store.ledger_rows import GuardRow, ProjectKeyRow, RequestRow, ServiceRow, SnapshotRow
from headrace.store.roles import event_roles


class ServiceHead:
    """Who leads a service, until when, and where it last appended."""

    __slots__ = ("epoch", "holder", "last_position", "lease_until_us", "lease_us")

    def __init__(self) -> None:
        self.epoch = 0
        self.holder = ""
        self.lease_until_us = 0
        self.lease_us = 0
        self.last_position = 0


class MemoryLog:
    """What several stores share: the events and all that is kept beside them."""

    def __init__(self) -> None:
        self.events: list[Stored] = []
        self.streams: dict[str, list[Stored]] = defaultdict(list)
        self.services: dict[str, ServiceHead] = {}
        # (project, source, key): (hash, position, recorded at, in µs)
        self.requests: dict[tuple[str, str, str], tuple[bytes, int, int]] = {}
        self.clock_offset_us = 0  # makes up for steps of the clock
        self.clock_read: tuple[int, int] | None = (
            None  # the machine's time since boot, and the log's
        )
        self.guards: dict[str, GuardRow] = {}
        self.snapshots: dict[str, dict[int, Snapshot]] = defaultdict(dict)
        self.project_keys: dict[str, tuple[str, bytes]] = {}
        self.secrets: dict[tuple[str, str, str], bytes] = {}

    def hash_at(self, position: int) -> bytes | None:
        """The hash of the event at a position, `GENESIS` at 0, None beyond the end."""
        if position == 0:
            return GENESIS
        return self.events[position - 1].hash if 0 < position <= len(self.events) else None

    def chained(self, event: Stored) -> Stored:
        """The event, of this log. Raises `Forked` when it does not chain onto the one before it."""
        before = event.position - 1
        if not follows(event, before, self.hash_at(before) or GENESIS):
            raise Forked(f"position {event.position} does not chain onto the one before it")
        return event


def ledger_of(log: MemoryLog, now_us: int) -> Ledger:
    """See `Store.ledger`."""
    last = log.events[-1] if log.events else None
    position, hash_ = (last.position, last.hash) if last else (0, GENESIS)
    return Ledger(
        head=Head(position=position, hash=hash_, now_us=now_us),
        recorded_at_us=last.recorded_at_us if last else 0,
        last_event=position,
        services=tuple(
            ServiceRow(service=name, epoch=head.epoch, last_position=head.last_position)
            for name, head in sorted(log.services.items())
        ),
        guards=tuple(row for _, row in sorted(log.guards.items())),
        requests=tuple(
            RequestRow(project=project, source=source, key=key, position=at, recorded_at_us=at_us)
            for (project, source, key), (_, at, at_us) in log.requests.items()
        ),
        snapshots=tuple(
            SnapshotRow(
                service=kept.service,
                position=kept.position,
                hash=kept.hash,
                decision_version=kept.decision_version,
                sha256=hashlib.sha256(kept.data).digest(),
            )
            for by_position in log.snapshots.values()
            for kept in by_position.values()
        ),
        event_roles=frozenset(event_roles()),
        project_keys=tuple(
            ProjectKeyRow(project=project, id=key_id, sha256=hashlib.sha256(wrapped).digest())
            for project, (key_id, wrapped) in sorted(log.project_keys.items())
        ),
    )
