"""What a log is, whoever keeps it: Postgres in production, memory in simulation.

Rule: positions are gapless and in commit order; an append is one transaction, whole or not at all;
every implementation passes `tests/contract/test_store.py`.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Protocol

import msgspec

from headrace.events.guards import Guard
from headrace.store.ledger_rows import GuardRow, ProjectKeyRow, RequestRow, ServiceRow, SnapshotRow

GENESIS = b"\0" * 32  # the hash before position 1
EVENT_BYTES_MAX = 262_144  # one event's data; larger input is refused at the door
APPEND_EVENTS_MAX = 512  # one append; the loop leaves the rest for its next turn
READ_EVENTS_MAX = 2_000  # one page of the log

_LENGTHS = struct.Struct(">4I")
_PLACE = struct.Struct(">2q")


class StoreError(Exception):
    """The log could not do what was asked."""


class Fenced(StoreError):
    """Another instance leads this service now: stop deciding."""


class Behind(StoreError):
    """The service's own last append is not folded in the basis: read on, then decide again."""


class Forked(StoreError):
    """The log at the basis is not the log that was folded: a suffix was lost or forged."""


class ClockStepped(StoreError):
    """The database's clock went on by something else than the time that passed."""


class GuardRefused(StoreError):
    """A device would be booked above its limit. Nothing was appended."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} would be booked above its limit")
        self.key = key


class NotAllowed(StoreError):
    """The role may not append events of that type."""


class Unavailable(StoreError):
    """The log cannot be reached, or the outcome of an append is unknown: read on, then decide."""


class NoRoom(Unavailable):
    """The disk of the log is full: nothing was appended, and reading goes on."""


class SchemaTooNew(StoreError):
    """The database was migrated by a newer Headrace than this one."""


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way into the log.

    A fact that records a request carries `request_source` and `request_key` (together unique in its
    project for 30 days) and `request_hash` (over the normalised request): a repeated request appends
    nothing and reports the original instead.
    """

    stream: str
    type: str
    project: str
    header: bytes
    data: bytes
    guards: tuple[Guard, ...] = ()
    request_source: str = ""
    request_key: str = ""
    request_hash: bytes = b""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the log, as its bytes. `hash` chains it to the one before."""

    position: int
    recorded_at_us: int
    stream: str
    type: str
    project: str
    header: bytes
    data: bytes
    hash: bytes


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """The event at `index` of an append repeated the request recorded at `position`.

    `same` tells whether its hash was the same, so that the original answer holds.
    """

    index: int
    position: int
    same: bool


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What an append put into the log (in order, gapless) and what it left out as repeated.

    `indexes[i]` is the place in the request of `events[i]`.
    """

    events: tuple[Stored, ...]
    indexes: tuple[int, ...]
    duplicates: tuple[Duplicate, ...]
    now_us: int  # the database's clock at the end


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the log (position 0 and `GENESIS` when it is empty) and the database's clock."""

    position: int
    hash: bytes
    now_us: int


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Every table beside the events that an append trusts, all as of one moment.

    `head` and `recorded_at_us` are the head row's; `last_event` is the last position that has an
    event. `event_roles` are pairs of an event type and a role that may append it. `project_keys` are the
    vault's, which events name.
    """

    head: Head
    recorded_at_us: int
    last_event: int
    services: tuple[ServiceRow, ...]
    guards: tuple[GuardRow, ...]
    requests: tuple[RequestRow, ...]
    snapshots: tuple[SnapshotRow, ...]
    event_roles: frozenset[tuple[str, str]]
    project_keys: tuple[ProjectKeyRow, ...] = ()


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A term of leadership: `epoch` fences every earlier one."""

    epoch: int
    holder: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A service's state after `position`, made by the code `decision_version`."""

    service: str
    position: int
    hash: bytes
    decision_version: str
    data: bytes


class Store(Protocol):
    """The log and what is kept beside it. Every call has a timeout and raises `Unavailable`."""

    async def head(self) -> Head:
        """Where the log ends now."""
        ...

    async def read(self, after: int, limit: int = READ_EVENTS_MAX) -> list[Stored]:
        """Up to `limit` events after the position `after`, in order."""
        ...

    async def read_stream(self, stream: str, after: int = 0, limit: int = 500) -> list[Stored]:
        """Up to `limit` events of one stream after a position, in order. Raises `Forked` when one of
        them does not chain onto the event before it in the log.
        """
        ...

    async def ledger(self) -> Ledger:
        """What is kept beside the events, all as of one moment. An operator's right."""
        ...

    async def append(
        self, service: str, epoch: int, basis: int, basis_hash: bytes, events: list[NewEvent]
    ) -> Appended:
        """Append all of `events` or none, in one transaction and one round trip.

        Raises `Fenced` when `epoch` is over, `Behind` when the service's last append is after
        `basis`, `Forked` when the log's hash at `basis` is not `basis_hash`, `GuardRefused`,
        `NotAllowed`, `Unavailable`.
        """
        ...

    async def lead(self, service: str, holder: str, lease_s: float) -> Term | None:
        """A new term for `holder`, unless another holder's lease is unexpired. The holder of the
        current lease gets a new term at once: it restarted. A lease from before the database's clock
        was set back lasts its length from the first time that another asks.
        """
        ...

    def stepped_us(self) -> int:
        """By how much the database's clock was found to have stepped since this was last asked, in
        microseconds. The log's time goes on as if it had not.
        """
        ...

    async def renew(self, service: str, holder: str, epoch: int, lease_s: float) -> bool:
        """Extend the lease; False when the term is over."""
        ...

    async def resign(self, service: str, holder: str, epoch: int) -> None:
        """End the lease now, so that another instance need not wait for it."""
        ...

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the snapshot; older ones of the service are dropped but for the last one."""
        ...

    async def load_snapshot(self, service: str, decision_version: str) -> Snapshot | None:
        """The latest snapshot that this code made, if its hash is still the log's."""
        ...

    async def close(self) -> None:
        """Give back every connection."""
        ...


class Vault(Protocol):
    """What is kept outside the log so that it can be forgotten. Holds sealed bytes only."""

    async def project_key(self, project: str) -> tuple[str, bytes] | None:
        """The id and wrapped bytes of the project's current key, or None."""
        ...

    async def add_project_key(self, project: str, wrapped: bytes) -> tuple[str, bytes]:
        """Keep a first key for the project; whoever was first wins and is returned."""
        ...

    async def wrapped_key(self, key_id: str) -> bytes | None:
        """A key by id, or None once it was dropped."""
        ...

    async def drop_project_keys(self, project: str) -> int:
        """Forget every key and secret of the project; how many rows went."""
        ...

    async def put_secret(self, project: str, name: str, version: str, sealed: bytes) -> None:
        """Keep a sealed secret value."""
        ...

    async def secret(self, project: str, name: str, version: str) -> bytes | None:
        """A sealed secret value, or None."""
        ...


def key_id_of(wrapped: bytes) -> str:
    """The id of a key, by which events name it: so that none can be put in another's place."""
    return hashlib.sha256(wrapped).hexdigest()


def content_hash(event: NewEvent | Stored) -> bytes:
    """The hash of what an event says, wherever it stands in the log.

    sha256(int4 lengths of type, stream, project and header ‖ type ‖ stream ‖ project ‖ header ‖
    data), texts as UTF-8. The lengths come first, so that no two events have the same bytes.
    """
    type_, stream = event.type.encode(), event.stream.encode()
    project, header = event.project.encode(), event.header
    lengths = _LENGTHS.pack(len(type_), len(stream), len(project), len(header))
    return hashlib.sha256(b"".join((lengths, type_, stream, project, header, event.data))).digest()


def chain(previous: bytes, position: int, recorded_at_us: int, event: NewEvent | Stored) -> bytes:
    """The hash of an event at a place in the log: sha256(previous hash ‖ int8 position ‖ int8 µs ‖
    content hash), each of a fixed length. It covers every column.
    """
    place = _PLACE.pack(position, recorded_at_us)
    return hashlib.sha256(previous + place + content_hash(event)).digest()


def follows(event: Stored, position: int, hash_before: bytes) -> bool:
    """Whether `event` is the very next one after `position` and chains onto `hash_before`."""
    return event.position == position + 1 and event.hash == chain(
        hash_before, event.position, event.recorded_at_us, event
    )
