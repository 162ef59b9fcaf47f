"""What the in-memory stores of several services share: the log, and what is kept beside it."""

from __future__ import annotations

from collections import defaultdict

from headrace.store.interface import GENESIS, Snapshot, Stored


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
        # (project, key): (hash, position, recorded at, in µs)
        self.requests: dict[tuple[str, str, str], tuple[bytes, int, int]] = {}
        self.guards: dict[str, int] = {}
        self.snapshots: dict[str, dict[int, Snapshot]] = defaultdict(dict)
        self.project_keys: dict[str, tuple[str, bytes]] = {}
        self.keys_made = 0
        self.secrets: dict[tuple[str, str, str], bytes] = {}

    def hash_at(self, position: int) -> bytes | None:
        """The hash of the event at a position, `GENESIS` at 0, None beyond the end."""
        if position == 0:
            return GENESIS
        return self.events[position - 1].hash if 0 < position <= len(self.events) else None
