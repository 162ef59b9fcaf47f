"""One machine in a turn: what is held on it, what is leaving it and what is coming to it.

Rule: what is held and what is coming never exceed what the machine has; what is leaving may be
promised, but not used, before it is gone. A device is whole for one or shared, never both.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.scheduling.amounts import Amounts
from headrace.scheduling.gangs import Place, Shape

DEVICE_MILLI = 1000
HELD, LEAVING, COMING = range(3)  # the three books of a machine


class MachineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine has. `path` names its domain at each level of each topology."""

    name: str
    devices: int = 0
    device_memory_mib: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    tasks_max: int = 1_000_000
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    accepting: bool = True

    @property
    def amounts(self) -> Amounts:
        """Everything it has."""
        return (self.devices * DEVICE_MILLI, self.cpu_milli, self.memory_bytes)


class Machine:
    """A machine's books. `now` counts what is free, `later` what will be once all is gone that is
    leaving; both without what is already promised.
    """

    __slots__ = (
        "_count",
        "_cpu",
        "_memory",
        "free_milli",
        "milli",
        "spec",
        "wholes_coming",
        "wholes_later",
        "wholes_now",
    )

    def __init__(self, spec: MachineSpec) -> None:
        self.spec = spec
        self.milli = ([0] * spec.devices, [0] * spec.devices, [0] * spec.devices)
        self._cpu, self._memory, self._count = [0, 0, 0], [0, 0, 0], [0, 0, 0]
        self.wholes_coming = 0
        self.wholes_now = self.wholes_later = spec.devices
        self.free_milli = spec.devices * DEVICE_MILLI  # later, over all devices

    @property
    def free_later(self) -> Amounts:
        """What is free once all is gone that is leaving."""
        cpu = self.spec.cpu_milli - self._cpu[HELD] - self._cpu[COMING]
        memory = self.spec.memory_bytes - self._memory[HELD] - self._memory[COMING]
        return (self.free_milli, cpu, memory)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is leaving."""
        return not self._count[LEAVING]

    def book(self, place: Place, book: int, sign: int = 1) -> None:
        """Enter a place in a book or, with `sign` -1, strike it out."""
        self._cpu[book] += sign * place.amounts[1]
        self._memory[book] += sign * place.amounts[2]
        self._count[book] += sign
        self.wholes_coming += sign * place.count
        milli = self.milli[book]
        for device in place.devices:
            milli[device] += sign * place.milli
        if place.devices or place.count:
            self._recount()

    def free_on(self, device: int) -> tuple[int, int]:
        """Thousandths of one device free now and later."""
        held, leaving, coming = (book[device] for book in self.milli)
        return DEVICE_MILLI - held - max(leaving, coming), DEVICE_MILLI - held - coming

    def fit(self, shape: Shape, *, spread: bool = False) -> tuple[Place, bool] | None:
        """Where a task of this shape would go here, and whether it could at once; None when it
        does not fit even later.
        """
        spec = self.spec
        cpu = spec.cpu_milli - self._cpu[HELD] - shape.cpu_milli
        memory = spec.memory_bytes - self._memory[HELD] - shape.memory_bytes
        count = spec.tasks_max - self._count[HELD] - 1
        coming = (self._cpu[COMING], self._memory[COMING], self._count[COMING])
        if cpu < coming[0] or memory < coming[1] or count < coming[2]:
            return None
        at_once = (
            cpu >= max(coming[0], self._cpu[LEAVING])
            and memory >= max(coming[1], self._memory[LEAVING])
            and count >= max(coming[2], self._count[LEAVING])
        )
        if not shape.devices:
            amounts = (0, shape.cpu_milli, shape.memory_bytes)
            return Place(node=spec.name, amounts=amounts), at_once
        if shape.is_shared:
            return self._fit_shared(shape, at_once=at_once, spread=spread)
        return self._fit_whole(shape, at_once=at_once)

    def still_fits(self, place: Place) -> bool:
        """Whether a task could be, or stay, on this very place once all is gone that is leaving."""
        spec, amounts = self.spec, place.amounts
        if (
            spec.cpu_milli < self._cpu[HELD] + self._cpu[COMING] + amounts[1]
            or spec.memory_bytes < self._memory[HELD] + self._memory[COMING] + amounts[2]
            or spec.tasks_max < self._count[HELD] + self._count[COMING] + 1
        ):
            return False
        if any(self.free_on(device)[1] < place.milli for device in place.devices):
            return False
        empties = sum(self._is_empty(device) for device in place.devices)
        return empties + place.count <= self.wholes_later

    def _is_empty(self, device: int) -> bool:
        return not self.milli[HELD][device] and not self.milli[COMING][device]

    def _fit_whole(self, shape: Shape, *, at_once: bool) -> tuple[Place, bool] | None:
        wanted = shape.devices
        if self.wholes_later < wanted:
            return None
        amounts = shape.amounts(self.spec.device_memory_mib)
        if not at_once or self.wholes_now < wanted:
            return Place(node=self.spec.name, amounts=amounts, count=wanted), False
        free = [d for d in range(self.spec.devices) if self.free_on(d)[0] == DEVICE_MILLI]
        place = Place(
            node=self.spec.name, amounts=amounts, devices=tuple(free[:wanted]), milli=DEVICE_MILLI
        )
        return place, True

    def _fit_shared(
        self, shape: Shape, *, at_once: bool, spread: bool
    ) -> tuple[Place, bool] | None:
        """The fullest device that has room, a fresh one last; the other way round to spread."""
        milli = shape.milli_of(self.spec.device_memory_mib)
        if milli > DEVICE_MILLI:
            return None
        ranked: list[tuple[int, int, int, bool]] = []
        for device in range(self.spec.devices):
            now, later = self.free_on(device)
            if later < milli or (self._is_empty(device) and self.wholes_later < 1):
                continue
            held, leaving, coming = (book[device] for book in self.milli)
            used = held + leaving + coming
            soon = now >= milli and (held > 0 or not coming)
            if not used:
                soon = soon and self.wholes_now > 0
            ranked.append((used if spread else -used, 0 if soon else 1, device, soon))
        ranked.sort()
        chosen = self._choose(ranked, shape.devices)
        if chosen is None:
            return None
        place = Place(
            node=self.spec.name,
            amounts=shape.amounts(self.spec.device_memory_mib),
            devices=tuple(device for _, _, device, _ in chosen),
            milli=milli,
        )
        return place, at_once and all(soon for *_, soon in chosen)

    def _choose(
        self, ranked: list[tuple[int, int, int, bool]], wanted: int
    ) -> list[tuple[int, int, int, bool]] | None:
        """The first devices of a ranking, no more of them empty than are not promised as wholes."""
        empties, chosen = self.wholes_later, []
        for entry in ranked:
            if self._is_empty(entry[2]):
                if not empties:
                    continue
                empties -= 1
            chosen.append(entry)
            if len(chosen) == wanted:
                return chosen
        return None

    def has_shared_room(self, milli: int) -> bool:
        """Whether a device that is already shared has that much left."""
        return any(
            self.free_on(device)[1] >= milli
            for device in range(self.spec.devices)
            if any(book[device] for book in self.milli)
        )

    def _recount(self) -> None:
        held, leaving, coming = self.milli
        empty = fresh = free = 0
        for device in range(self.spec.devices):
            taken = held[device] + coming[device]
            free += DEVICE_MILLI - taken
            if not taken:
                empty += 1
                fresh += not leaving[device]
        self.wholes_later = empty - self.wholes_coming
        self.wholes_now = min(fresh, self.wholes_later)
        self.free_milli = free - DEVICE_MILLI * self.wholes_coming


def memory_bounds(specs: Iterable[MachineSpec]) -> tuple[int, int]:
    """The smallest and the largest device memory among machines that have devices; 0 for none."""
    sizes = [spec.device_memory_mib for spec in specs if spec.devices]
    return (min(sizes), max(sizes)) if sizes else (0, 0)
