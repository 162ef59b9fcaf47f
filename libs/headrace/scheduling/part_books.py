"""What queues want of each part of the fleet, and in which parts a shape could be placed.

Rule: kept step by step beside the books of all GPUs, and only while a tree names parts at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from headrace.scheduling.amounts import GPU
from headrace.scheduling.banks import DEVICE_MILLI
from headrace.scheduling.eligibility import is_eligible
from headrace.scheduling.gangs import PENDING, PLACED, Gang, Place, Shape, Task
from headrace.scheduling.machines import Machine, MachineSpec, takes
from headrace.scheduling.parts import Cell, Parts

SHAPES_MAX = 1_000  # whose cells are remembered


class PartBooks:
    """By the number of each part, what is there of it and who wants it. `version` rises with every
    change; `stale`: machines of another kind came or went, so that shapes may reach other parts.
    """

    def __init__(self, machines: Mapping[str, Machine]) -> None:
        self._machines = machines
        self.version = 0
        self.set_parts(Parts())

    def set_parts(self, parts: Parts) -> None:
        """The tree names these from now on; nobody is known to want any of them."""
        self.parts = parts
        self.any = bool(parts.all)
        self.stale = False
        self._cells: dict[Shape, tuple[Cell, ...]] = {}
        self._requests: dict[str, dict[int, int]] = {}  # by gang
        self.wanted: list[dict[str, int]] = [{} for _ in parts.all]  # of each, by queue
        self.version += 1

    def follow(self, old: MachineSpec | None, new: MachineSpec | None) -> None:
        """A machine is new, has changed or has gone."""
        self.version += 1
        self.stale = self.stale or old is None or new is None or _sort(old) != _sort(new)

    def refresh(self) -> bool:
        """Whether shapes reach other parts than before, so that all is to be wanted anew."""
        if not self.stale:
            return False
        before, self._cells, self.stale = self._cells, {}, False
        if len(before) <= SHAPES_MAX and all(self.cells_of(s) == before[s] for s in before):
            return False
        self.set_parts(self.parts)
        return True

    def capacities(self) -> list[int]:
        """Milli-GPUs of each part that can be used."""
        found = [0] * len(self.parts.all)
        for machine in self._machines.values():
            for bank in machine.banks:
                for number in self.parts.cell(bank.kind.model, machine.spec.pool):
                    found[number] += len(bank.devices) * DEVICE_MILLI
        return found

    def cell_at(self, place: Place) -> Cell:
        """Of which parts the GPUs of a place are."""
        machine = self._machines.get(place.node)
        if machine is None:
            return ()
        bank, models = machine.bank_of(place), machine.spec.models
        if bank is not None:
            return self.parts.cell(bank.kind.model, machine.spec.pool)
        there = [device for device in place.devices if device < len(models)]
        return self.parts.cell(models[there[0]], machine.spec.pool) if there else ()

    def cells_on(self, machine: Machine, shape: Shape) -> list[Cell]:
        """Of which parts the GPUs of a machine are that the shape could have."""
        pool = machine.spec.pool
        kinds = (bank.kind for bank in machine.banks)
        return [self.parts.cell(kind.model, pool) for kind in kinds if takes(shape, kind)]

    def cells_of(self, shape: Shape) -> tuple[Cell, ...]:
        """Of which parts the GPUs are that a task of this shape could have anywhere."""
        known = self._cells.get(shape)
        if known is None:
            sort = msgspec.structs.replace(
                shape, devices=min(1, shape.devices), cpu_milli=0, memory_bytes=0
            )  # however much it asks for
            known = self._cells.get(sort)
            self._cells[shape] = known = self._reached(sort) if known is None else known
            self._cells[sort] = known
        return known

    def _reached(self, shape: Shape) -> tuple[Cell, ...]:
        machines = self._machines.values() if shape.devices else ()
        meant = (machine for machine in machines if is_eligible(shape, machine, closed=True))
        return tuple(sorted({cell for one in meant for cell in self.cells_on(one, shape)}))

    def needs(self, shape: Shape) -> Cell:
        """The parts that a task of this shape has GPUs of wherever it is placed."""
        cells = self.cells_of(shape)
        return tuple(n for n in cells[0] if all(n in cell for cell in cells)) if cells else ()

    def want(self, gang: Gang, names: Sequence[str], request_of: Callable[[Task], int]) -> None:
        """Count what the gang, and each of these like it, has, and wants of every part that it could
        be placed in.
        """
        mine: dict[int, int] = {}
        for task in gang.all_tasks():
            numbers: Cell = ()
            milli = 0
            if task.state in PLACED and task.place is not None:
                numbers, milli = self.cell_at(task.place), task.place.amounts[GPU]
            elif task.state == PENDING and task.shape.devices:
                cells = self.cells_of(task.shape)
                numbers = tuple(sorted({number for cell in cells for number in cell}))
                milli = request_of(task)
            for number in numbers:
                mine[number] = mine.get(number, 0) + milli
        if mine:
            self._requests.update(dict.fromkeys(names, mine))
            self._count(gang.queue, mine, len(names))

    def leave(self, gang: Gang) -> None:
        """The gang wants nothing any more."""
        self._count(gang.queue, self._requests.pop(gang.name, {}), -1)

    def requeue(self, name: str, many: int, old: str, new: str) -> None:
        """So many that want what this one does are of another queue now."""
        mine = self._requests.get(name, {})
        self._count(old, mine, -many)
        self._count(new, mine, many)

    def _count(self, queue: str, requests: Mapping[int, int], many: int) -> None:
        for number, milli in requests.items():
            wanted = self.wanted[number]
            wanted[queue] = wanted.get(queue, 0) + many * milli
            self.version += 1


def _sort(spec: MachineSpec) -> tuple[object, ...]:
    """What of a machine decides which shapes reach which parts on it."""
    return (spec.labels, spec.taints, spec.pool, spec.has_engine, [kind for kind, _ in spec.usable])
