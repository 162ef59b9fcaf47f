"""One machine in a turn: what is held on it, what is leaving it and what is coming to it.

Rule: what is held and what is coming never exceed what the machine has; what is leaving may be
promised, but not used, before it is gone. A device is whole for one or shared, never both.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.scheduling.amounts import Amounts
from headrace.scheduling.banks import DEVICE_MILLI, LEAVING, Bank, Books, Kind
from headrace.scheduling.gangs import Place, Shape
from headrace.scheduling.kinds import is_model


class MachineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine has. `labels` name its domain at each level of each topology. `kinds`: what each
    device is, None if it takes no work; empty if all are alike. `models`: of all, if some take none.
    """

    name: str
    devices: int = 0
    device_memory_bytes: int = 0
    model: str = ""
    kinds: tuple[Kind | None, ...] = ()
    models: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0
    tasks_max: int = 1_000_000
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    accepting: bool = True
    is_full: bool = False  # its disk, which is why it is not accepting
    pool: str = ""
    has_engine: bool = False

    @property
    def amounts(self) -> Amounts:
        """Everything it has that can be used."""
        devices = sum(len(devices) for _, devices in self.usable)
        return (devices * DEVICE_MILLI, self.cpu_milli, self.memory_bytes)

    @property
    def usable(self) -> list[tuple[Kind, list[int]]]:
        """The kinds of devices that take work, in order of their first, with their indices."""
        if not self.kinds:
            kind = Kind(model=self.model, memory_bytes=self.device_memory_bytes)
            return [(kind, list(range(self.devices)))] if self.devices else []
        found: dict[Kind, list[int]] = {}
        for index, each in enumerate(self.kinds):
            if each is not None:
                found.setdefault(each, []).append(index)
        return list(found.items())


class Machine:
    """A machine's books. `free_milli` is what will be free once all is gone that is leaving, without
    what is already promised.
    """

    __slots__ = ("_bank_with", "_free", "banks", "free_milli", "milli", "spec", "taken")

    def __init__(self, spec: MachineSpec) -> None:
        self.spec = spec
        self.milli: Books = ([0] * spec.devices, [0] * spec.devices, [0] * spec.devices)
        self.taken = ([0, 0, 0], [0, 0, 0], [0, 0, 0])  # cores, memory and tasks in each book
        self._free: tuple[list[int], list[int]] | None = None  # of `taken`, now and later
        self.banks = [Bank(kind, devices, self.milli) for kind, devices in spec.usable]
        self._bank_with = {device: bank for bank in self.banks for device in bank.devices}
        self.free_milli = sum(len(bank.devices) for bank in self.banks) * DEVICE_MILLI

    @property
    def free_later(self) -> Amounts:
        """What is free once all is gone that is leaving."""
        later = self._room()[1]
        return (self.free_milli, later[0], later[1])

    @property
    def wholes_later(self) -> int:
        """How many devices are whole once all is gone that is leaving, but for those promised."""
        return sum(bank.wholes_later for bank in self.banks)

    def book(self, place: Place, book: int, sign: int = 1) -> None:
        """Enter a place in a book or, with `sign` -1, strike it out."""
        (cores, memory, tasks), (_, cpu_milli, memory_bytes) = self.taken, place.amounts
        cores[book] += sign * cpu_milli
        memory[book] += sign * memory_bytes
        tasks[book] += sign
        self._free = None
        if not place.devices and not place.count:
            return
        milli, more_milli, usable = self.milli[book], sign * place.milli, self._bank_with
        for device in place.devices:
            milli[device] += more_milli
            if book != LEAVING and device in usable:
                self.free_milli -= more_milli
        bank = self.bank_of(place)
        if bank is not None and place.count:
            bank.wholes_coming += sign * place.count
            self.free_milli -= sign * place.count * DEVICE_MILLI
        for bank in self.banks:
            bank.is_stale = True

    def free_on(self, device: int) -> tuple[int, int]:
        """Thousandths of one device free now and later; nothing of one that takes no work."""
        return bank.free_on(device) if (bank := self._bank_with.get(device)) else (0, 0)

    def fit(self, shape: Shape, *, spread: bool = False) -> tuple[Place, bool] | None:
        """Where a task of this shape would go here, and whether it could at once; None when it
        does not fit even later. Its devices are all of one kind.
        """
        now, later_on = self._room()
        if not _has_room(later_on, shape.cpu_milli, shape.memory_bytes):
            return None
        at_once = _has_room(now, shape.cpu_milli, shape.memory_bytes)
        if not shape.devices:
            return Place(node=self.spec.name, amounts=shape.amounts(0)), at_once
        later: tuple[Place, bool] | None = None
        for number, bank in enumerate(self.banks):
            if takes(shape, bank.kind):
                found = self._fit_on(number, shape, at_once=at_once, spread=spread)
                if found is not None and found[1]:
                    return found
                later = later or found
        return later

    def still_fits(self, place: Place) -> bool:
        """Whether a task could be, or stay, on this very place once all is gone that is leaving."""
        if not _has_room(self._room()[1], place.amounts[1], place.amounts[2]):
            return False
        bank = self.bank_of(place)
        if bank is None:
            return not (place.devices or place.count)
        if any(self.free_on(device)[1] < place.milli for device in place.devices):
            return False
        return place.count + sum(map(bank.is_empty, place.devices)) <= bank.wholes_later

    def has_shared_room(self, shape: Shape) -> bool:
        """Whether a device that is already shared has room for one more such share."""
        return any(
            bank.has_shared_room(shape.milli_of(bank.kind.memory_bytes))
            for bank in self.banks
            if takes(shape, bank.kind)
        )

    def bank_of(self, place: Place) -> Bank | None:
        """Which of its banks the devices of a place are of, as far as they take work still."""
        if known := [device for device in place.devices if device in self._bank_with]:
            return self._bank_with[known[0]]
        return self.banks[place.bank] if place.count and place.bank < len(self.banks) else None

    def _room(self) -> tuple[list[int], list[int]]:
        """Cores, memory and tasks that are free now and later; counted again after a change."""
        if self._free is None:
            spec = self.spec
            now, later = [spec.cpu_milli, spec.memory_bytes, spec.tasks_max], [0, 0, 0]
            for number, (held, leaving, coming) in enumerate(self.taken):
                later[number] = now[number] - held - coming
                now[number] -= held + max(leaving, coming)
            self._free = (now, later)
        return self._free

    def _fit_on(
        self, number: int, shape: Shape, *, at_once: bool, spread: bool
    ) -> tuple[Place, bool] | None:
        bank, name, wanted = self.banks[number], self.spec.name, shape.devices
        milli = shape.milli_of(bank.kind.memory_bytes)
        amounts = (wanted * milli, shape.cpu_milli, shape.memory_bytes)
        if milli < DEVICE_MILLI or shape.device_memory_bytes:
            chosen, soon = bank.shares(milli, wanted, spread=spread)
            if not chosen or milli > DEVICE_MILLI:
                return None
            return Place(node=name, amounts=amounts, devices=chosen, milli=milli), at_once and soon
        if bank.wholes_later < wanted:
            return None
        if not at_once or bank.wholes_now < wanted:
            return Place(node=name, amounts=amounts, count=wanted, bank=number), False
        devices = bank.wholes(wanted)
        return Place(node=name, amounts=amounts, devices=devices, milli=DEVICE_MILLI), True


def _has_room(free: list[int], cpu_milli: int, memory_bytes: int) -> bool:
    """Whether one more task finds cores, memory and a place among the tasks."""
    return free[0] >= cpu_milli and free[1] >= memory_bytes and free[2] >= 1


def takes(shape: Shape, kind: Kind) -> bool:
    """Whether this kind of device will do: `H100` means any `H100-…`."""
    is_named = not shape.model or is_model(kind.model, shape.model)
    if kind.profile != shape.profile or not is_named:
        return False
    low, high = shape.memory_min_bytes, shape.memory_max_bytes
    return kind.memory_bytes >= low and (not high or kind.memory_bytes <= high)


def memory_bounds(specs: Iterable[MachineSpec]) -> tuple[int, int]:
    """The smallest and the largest device memory among machines that have devices; 0 for none."""
    sizes = [kind.memory_bytes for spec in specs for kind, _ in spec.usable] or [0]
    return min(sizes), max(sizes)
