"""Nodes as the log tells of them: their devices, and what is taken of each.

Rule: amounts are integers (thousandths of a GPU, thousandths of a core, bytes). A node is changed
through `take` and `give` only; trying something out is what a `World` is for.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.events.gangs import Share

DEVICE_MILLI = 1000  # one whole GPU


class Device(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One GPU and how much of it is booked. `usable` is false for a device that takes no work."""

    device: str
    index: int
    model: str
    memory_bytes: int
    used_milli: int = 0
    usable: bool = True
    profile: str = ""


class Node(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One machine. `accepting` is false while it is silent, cordoned or fenced.

    `devices` are in index order.
    """

    node: str
    address: str = ""
    devices: list[Device] = []
    cpu_milli: int = 0
    memory_bytes: int = 0
    cpu_used_milli: int = 0
    memory_used_bytes: int = 0
    accepting: bool = True

    @property
    def free_milli(self) -> int:
        """Thousandths of usable GPUs that nobody has."""
        return sum(DEVICE_MILLI - d.used_milli for d in self.devices if d.usable)

    @property
    def capacity_milli(self) -> int:
        """Thousandths of usable GPUs."""
        return sum(DEVICE_MILLI for d in self.devices if d.usable)

    def take(self, shares: Iterable[Share], cpu_milli: int, memory_bytes: int) -> None:
        """Book this much here."""
        self._book(shares, cpu_milli, memory_bytes, 1)

    def give(self, shares: Iterable[Share], cpu_milli: int, memory_bytes: int) -> None:
        """Give this much back; never below nothing booked."""
        self._book(shares, cpu_milli, memory_bytes, -1)

    def _book(self, shares: Iterable[Share], cpu_milli: int, memory_bytes: int, sign: int) -> None:
        self.cpu_used_milli = max(0, self.cpu_used_milli + sign * cpu_milli)
        self.memory_used_bytes = max(0, self.memory_used_bytes + sign * memory_bytes)
        for share in shares:
            for device in self.devices:
                if device.device == share.device:
                    device.used_milli = max(0, device.used_milli + sign * share.milli)
                    break
