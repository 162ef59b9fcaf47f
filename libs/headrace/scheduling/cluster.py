"""The cluster as the scheduler sees it: nodes, their devices, and what is taken of each.

Rule: amounts are integers (thousandths of a GPU, thousandths of a core, bytes). A node is changed
through `take` and `give` only; trying something out works on a `Scratch` that copies what it
touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headrace.events.gangs import Share, Worker

DEVICE_MILLI = 1000  # one whole GPU


class Device(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One GPU and how much of it is booked. `usable` is false for a device that takes no work."""

    device: str
    index: int
    model: str
    memory_bytes: int
    used_milli: int = 0
    usable: bool = True


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

    def copy(self) -> Node:
        """A node that can be changed without changing this one."""
        devices = [
            Device(
                device=d.device,
                index=d.index,
                model=d.model,
                memory_bytes=d.memory_bytes,
                used_milli=d.used_milli,
                usable=d.usable,
            )
            for d in self.devices
        ]
        return Node(
            node=self.node,
            address=self.address,
            devices=devices,
            cpu_milli=self.cpu_milli,
            memory_bytes=self.memory_bytes,
            cpu_used_milli=self.cpu_used_milli,
            memory_used_bytes=self.memory_used_bytes,
            accepting=self.accepting,
        )

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


class Booking(msgspec.Struct, frozen=True, kw_only=True):
    """What a gang holds: its workers' devices, and CPU and memory on each of their nodes."""

    workers: tuple[Worker, ...]
    cpu_milli: int = 0
    memory_bytes: int = 0

    @property
    def milli(self) -> int:
        """Thousandths of GPUs over the whole gang."""
        return sum(share.milli for worker in self.workers for share in worker.devices)


class Scratch:
    """A cluster to try things on: the given nodes stay as they are."""

    def __init__(self, base: Mapping[str, Node], touched: list[str] | None = None) -> None:
        self._base = base
        self._copies: dict[str, Node] = {}
        self.touched = [] if touched is None else touched  # every change, for rankings to follow

    def names(self) -> Iterable[str]:
        """Every node, in the order in which they joined."""
        return self._base

    def node(self, name: str) -> Node:
        """The node as it stands in this trial: to read, never to change."""
        return self._copies.get(name) or self._base[name]

    def copied(self) -> Iterable[str]:
        """The nodes that differ from the base."""
        return self._copies

    def take(self, booking: Booking) -> None:
        """Book the gang in this trial."""
        for worker in booking.workers:
            if worker.node in self._base:
                node = self._own(worker.node)
                node.take(worker.devices, booking.cpu_milli, booking.memory_bytes)

    def give(self, booking: Booking) -> None:
        """Release the gang in this trial."""
        for worker in booking.workers:
            if worker.node in self._base:
                node = self._own(worker.node)
                node.give(worker.devices, booking.cpu_milli, booking.memory_bytes)

    def fork(self) -> Scratch:
        """A trial on top of this trial."""
        fork = Scratch(self._base)
        fork._copies = {name: node.copy() for name, node in self._copies.items()}
        return fork

    def _own(self, name: str) -> Node:
        copy = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = self._base[name].copy()
        self.touched.append(name)
        return copy
