"""I17: what is kept beside the events is what the events say.

Rule: an append trusts the head row, the services' rows, the counters of devices and the keys of
requests; a service starts from its snapshot; what events sealed is opened with their project's key, whose
id is a digest of what is kept of it. Each is compared with the log up to the head's position.

Not in the log, and so not compared: who holds a lease and until when, a term that appended nothing
(an epoch may be ahead of the log's), what a repeated request's hash was, what another version of the
code keeps as its snapshot, how large partitions are, and a key that is gone: erasing a project drops it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from headrace.events import Entry
from headrace.events.access import ProjectKeysDropped
from headrace.events.guards import guards_of
from headrace.events.jobs import JobRequested
from headrace.events.platform import LogBegan, ServiceLed
from headrace.store.interface import GENESIS, Ledger, Stored
from headrace.store.ledger_rows import GuardRow, SnapshotRow
from headrace.store.roles import ANY_OWNER, DECIDING, event_roles
from headrace.verification.replay import Replay
from headrace.verification.requests import KEY_US, Requests
from headrace.verification.violation import Violation

DIGEST_DIGITS = 64  # of a key's id


class LedgerCheck:
    """Keeps what each table should have, event by event, and compares at the end."""

    def __init__(self, ledger: Ledger, requests: Requests, replay: Replay, version: str) -> None:
        self._ledger = ledger
        self._requests = requests
        self._replay = replay
        self._version = version
        self._snapshots: dict[int, list[SnapshotRow]] = {}
        for row in ledger.snapshots:
            self._snapshots.setdefault(row.position, []).append(row)
        self._epochs: dict[str, int] = {}
        self._last: dict[str, int] = {}  # each service's own last append
        self._guards: dict[str, GuardRow] = {}
        self._keys: dict[str, str] = {}  # ids, each with its project, that were not dropped since
        self._booking = (0, 0)  # basis and clock of the append that changes counters
        self._changed: dict[str, int] = {}  # by it
        self._position, self._hash, self._recorded_at_us = 0, GENESIS, 0

    def take(self, stored: Stored, entry: Entry) -> list[Violation]:
        """The next event, which the requests and the replay have taken already; what is wrong with a
        snapshot that was made there.
        """
        event = entry.event
        self._position, self._hash = stored.position, stored.hash
        self._recorded_at_us = stored.recorded_at_us
        if isinstance(event, ServiceLed):
            self._epochs[event.service] = event.epoch
            self._last[event.service] = stored.position
        elif not isinstance(event, LogBegan):  # which no service appends
            owner = type(event).owner
            self._last[entry.header.actor if owner == ANY_OWNER else owner] = stored.position
        if isinstance(event, JobRequested):
            self._keys[event.launch_key] = event.project
        elif isinstance(event, ProjectKeysDropped):
            self._keys = {key: of for key, of in self._keys.items() if of != event.project}
        self._book(entry)
        rows = self._snapshots.pop(stored.position, ())
        return [_wrong(stored.position, what) for row in rows for what in self._snapshot(row)]

    def finish(self) -> list[Violation]:
        """What is wrong with the tables, the log having been taken up to its end."""
        return [
            _wrong(position, what)
            for position, what in (
                *self._wrong_head(),
                *self._wrong_services(),
                *self._wrong_guards(),
                *self._wrong_requests(),
                *self._wrong_snapshots(),
                *self._wrong_roles(),
                *self._wrong_keys(),
            )
        ]

    def _book(self, entry: Entry) -> None:
        """Sum the changes of one append, as the log's own function books them: all of one decision's
        header have the same basis and clock.
        """
        booking = (entry.header.basis, entry.header.decided_at_us)
        for guard in guards_of(entry.event):
            if booking != self._booking:
                self._settle()
                self._booking = booking
            self._changed[guard.key] = self._changed.get(guard.key, 0) + guard.delta
            self._guards.setdefault(
                guard.key, GuardRow(key=guard.key, used=0, limit=guard.limit, delta=0)
            )

    def _settle(self) -> None:
        for key, delta in self._changed.items():
            row = self._guards[key]
            self._guards[key] = GuardRow(
                key=key, used=max(0, row.used + delta), limit=row.limit, delta=delta
            )
        self._changed.clear()

    def _snapshot(self, row: SnapshotRow) -> Iterator[str]:
        """What is wrong with a snapshot made at the position that was just taken."""
        if row.hash != self._hash:
            yield f"the snapshot of {row.service} is of another log"
        if row.service not in DECIDING:
            yield f"the snapshot of {row.service} is of no service that decides"
        if row.decision_version != self._version:
            return
        state = self._replay.encoded_state(row.service)
        if state is not None and hashlib.sha256(state).digest() != row.sha256:
            yield f"the snapshot of {row.service} is not the state that follows from the log"

    def _wrong_head(self) -> Iterator[tuple[int, str]]:
        ledger, head = self._ledger, self._ledger.head
        if ledger.last_event != head.position:
            yield ledger.last_event, f"is the last event, and the head says {head.position}"
        elif self._position != head.position:
            yield head.position, f"is the head, and the last event is {self._position}"
        elif self._hash != head.hash:
            yield head.position, "the head has another hash than the event"
        elif self._recorded_at_us != ledger.recorded_at_us:
            yield head.position, "the head was recorded at another time than the event"

    def _wrong_services(self) -> Iterator[tuple[int, str]]:
        rows = {row.service: row for row in self._ledger.services}
        for service in sorted(rows.keys() | self._last.keys()):
            row, last = rows.get(service), self._last.get(service, 0)
            if row is None:
                yield last, f"is of service {service}, which has no row"
                continue
            if row.last_position != last:
                yield last, f"is {service}'s last event, and its row says {row.last_position}"
            if row.epoch < self._epochs.get(service, 0):
                led = self._epochs[service]
                yield last, f"{service} led epoch {led}, and its row says {row.epoch}"

    def _wrong_guards(self) -> Iterator[tuple[int, str]]:
        self._settle()
        rows = {row.key: row for row in self._ledger.guards}
        for key in sorted(rows.keys() | self._guards.keys()):
            row, made = rows.get(key), self._guards.get(key)
            if row != made:
                yield 0, f"the counter of {key} is {_said(row)}, and the log comes to {_said(made)}"

    def _wrong_requests(self) -> Iterator[tuple[int, str]]:
        rows = {(row.project, row.source, row.key): row for row in self._ledger.requests}
        for name, row in rows.items():
            at = self._requests.at.get(name)
            if at != (row.position, row.recorded_at_us):
                yield row.position, f"the row of request {name} is not what the log says: {at}"
        since_us = max(self._ledger.head.now_us, self._recorded_at_us) - KEY_US
        for name, (position, at_us) in self._requests.at.items():
            if at_us >= since_us and name not in rows:
                yield position, f"records request {name}, which has no row"

    def _wrong_snapshots(self) -> Iterator[tuple[int, str]]:
        for position, rows in sorted(self._snapshots.items()):
            for row in rows:
                if position or row.hash != GENESIS:
                    yield (
                        position,
                        f"the snapshot of {row.service} is of a position that is not there",
                    )

    def _wrong_keys(self) -> Iterator[tuple[int, str]]:
        used = frozenset(self._keys.values())
        for row in self._ledger.project_keys:
            of = self._keys.get(row.id)
            if (
                len(row.id) == DIGEST_DIGITS and row.id != row.sha256.hex()
            ):  # older ones are no digests
                yield 0, f"the key of {row.project} is not the one that its id {row.id} is of"
            elif of != row.project and (of is not None or row.project in used):
                yield (
                    0,
                    f"the key of {row.project} is {row.id}, and the log has that for {of or 'nobody'}",
                )

    def _wrong_roles(self) -> Iterator[tuple[int, str]]:
        for type_, role in sorted(self._ledger.event_roles ^ frozenset(event_roles())):
            may = "may" if (type_, role) in self._ledger.event_roles else "may not"
            yield 0, f"{role} {may} append {type_}, unlike this version has it"


def _said(row: GuardRow | None) -> str:
    if row is None:
        return "none"
    return f"{row.used} of {row.limit}, last changed by {row.delta}"


def _wrong(position: int, what: str) -> Violation:
    return Violation(invariant="I17", position=position, what=what)
