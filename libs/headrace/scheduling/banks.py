"""The devices of one kind on a machine: which of them are free for whom, and from when.

Rule: a device is whole for one or shared, never both; what is leaving it may be promised before it
is gone. Nothing is counted before somebody asks, as a search books and takes back far more.
"""

from __future__ import annotations

import msgspec

DEVICE_MILLI = 1000
HELD, LEAVING, COMING = range(3)  # the three books of a machine
Books = tuple[list[int], list[int], list[int]]  # thousandths of each device


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What a device is. `profile` names a slice of a partitioned one."""

    model: str = ""
    memory_bytes: int = 0
    profile: str = ""


class Bank:
    """The devices of one kind on a machine; counted again when somebody asks after a change."""

    __slots__ = (
        "_fresh",
        "_known",
        "_milli",
        "_wholes",
        "devices",
        "is_stale",
        "kind",
        "wholes_coming",
    )

    def __init__(self, kind: Kind, devices: list[int], milli: Books) -> None:
        self.kind = kind
        self.devices = devices
        self._milli = milli
        self._fresh = devices  # those of which nobody has, is promised or is leaving anything
        self._known: dict[tuple[int, int, bool], tuple[tuple[int, ...], bool]] = {}
        self._wholes = (len(devices), len(devices))
        self.wholes_coming = 0
        self.is_stale = False

    @property
    def wholes_now(self) -> int:
        """How many devices are free at once, but for those that are promised."""
        return self._counted()[0]

    @property
    def wholes_later(self) -> int:
        """The same once all is gone that is leaving."""
        return self._counted()[1]

    def _counted(self) -> tuple[int, int]:
        if not self.is_stale:
            return self._wholes
        held, leaving, coming = self._milli
        self._known.clear()
        empty = [device for device in self.devices if not held[device] + coming[device]]
        self._fresh = [device for device in empty if not leaving[device]]
        later = len(empty) - self.wholes_coming
        self._wholes = (min(len(self._fresh), later), later)
        self.is_stale = False
        return self._wholes

    def free_on(self, device: int) -> tuple[int, int]:
        """Thousandths of one device free now and later."""
        held, leaving, coming = self._milli
        free = DEVICE_MILLI - held[device]
        return free - max(leaving[device], coming[device]), free - coming[device]

    def is_empty(self, device: int) -> bool:
        """Whether nobody has or is promised any of it."""
        return not self._milli[HELD][device] and not self._milli[COMING][device]

    def has_shared_room(self, milli: int) -> bool:
        """Whether a device that is already shared has that much left."""
        return any(
            self.free_on(device)[1] >= milli
            for device in self.devices
            if any(book[device] for book in self._milli)
        )

    def wholes(self, wanted: int) -> tuple[int, ...]:
        """The first devices that are free now; there are that many."""
        self._counted()
        return tuple(self._fresh[:wanted])

    def shares(self, milli: int, wanted: int, *, spread: bool) -> tuple[tuple[int, ...], bool]:
        """On which devices shares would lie, and whether they could at once; none when they do not
        fit even later. The fullest device that has room, a fresh one last; the other way round to
        spread.
        """
        ranked: list[tuple[int, int, int]] = []
        for device in self.devices:
            now, later = self.free_on(device)
            if later < milli or self.wholes_later < int(self.is_empty(device)):
                continue  # fewer than none: more is promised than there will be
            held, leaving, coming = (book[device] for book in self._milli)
            used = held + leaving + coming
            soon = now >= milli and (held > 0 or not coming)
            if not used:
                soon = soon and self.wholes_now > 0
            ranked.append((used if spread else -used, int(not soon), device))
        ranked.sort()
        chosen = self._choose(ranked, wanted)
        return tuple(device for *_, device in chosen), not any(late for _, late, _ in chosen)

    def _choose(
        self, ranked: list[tuple[int, int, int]], wanted: int
    ) -> list[tuple[int, int, int]]:
        """The first of a ranking, no more of them empty than are not promised as wholes."""
        empties, chosen = self.wholes_later, []
        for entry in ranked:
            if self.is_empty(entry[2]):
                if not empties:
                    continue
                empties -= 1
            chosen.append(entry)
            if len(chosen) == wanted:
                return chosen
        return []
