"""A service's state: folded from a snapshot and the log after it.

Rule: a type the service listens to and cannot decode stops the service; others are never decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.decider import Decider
from headrace.events import Entry
from headrace.runtime.reader import entry_of
from headrace.store.interface import GENESIS, Snapshot, Store, Stored, StoreError

SNAPSHOT_EVENTS = 20_000  # a snapshot is kept whenever the log has grown by so many


class Folder:
    """Holds the state and how far the last kept snapshot reaches."""

    def __init__(self, decider: Decider[Any], store: Store, decision_version: str) -> None:
        self._decider = decider
        self._store = store
        self._version = decision_version
        self._tags = decider.tags()
        # Services read the same log: each keeps its snapshots elsewhere, not all in one moment.
        self._phase = zlib.crc32(decider.service.encode()) % SNAPSHOT_EVENTS
        self._snapshot_at = 0
        self._saving: asyncio.Task[None] | None = None
        self.state: Any = decider.initial()

    def reset(self) -> None:
        """Begin with the state of an empty log."""
        self.state = self._decider.initial()

    async def load(self) -> tuple[int, bytes]:
        """Take the latest snapshot made by this very code; the position and hash it stands at."""
        snapshot = await self._store.load_snapshot(self._decider.service, self._version)
        if snapshot is None:
            return 0, GENESIS
        self.state = msgspec.json.decode(snapshot.data, type=self._decider.state)
        self._snapshot_at = snapshot.position
        return snapshot.position, snapshot.hash

    def fold(self, stored: Sequence[Stored]) -> list[Entry]:
        """Fold these events, in order; the entries of the types listened to."""
        entries = [entry_of(event) for event in stored if event.type in self._tags]
        evolve, state = self._decider.evolve, self.state
        for entry in entries:
            evolve(state, entry)
        return entries

    def save_when_due(self, position: int, hash_: bytes) -> None:
        """Keep a snapshot now and then, so that a restart reads little; nobody waits until it is
        kept.
        """
        is_due = self._snapshots_until(position) > self._snapshots_until(self._snapshot_at)
        if is_due and self._saving is None:
            self._saving = asyncio.create_task(self._keep(self._snapshot(position, hash_)))
            self._saving.add_done_callback(self._saved)

    async def save(self, position: int, hash_: bytes) -> None:
        """Keep a snapshot now. Losing one costs time, never truth."""
        if self._saving is not None:
            await asyncio.wait([self._saving])
        await self._keep(self._snapshot(position, hash_))

    def _snapshots_until(self, position: int) -> int:
        return (position + self._phase) // SNAPSHOT_EVENTS

    def _snapshot(self, position: int, hash_: bytes) -> Snapshot:
        self._snapshot_at = position
        return Snapshot(
            service=self._decider.service,
            position=position,
            hash=hash_,
            decision_version=self._version,
            data=msgspec.json.encode(self.state),
        )

    async def _keep(self, snapshot: Snapshot) -> None:
        with contextlib.suppress(StoreError):
            await self._store.save_snapshot(snapshot)

    def _saved(self, _task: asyncio.Task[None]) -> None:
        self._saving = None
