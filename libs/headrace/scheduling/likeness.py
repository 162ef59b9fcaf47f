"""Which scenarios of a search are alike: one of them stands for all.

Rule: two are alike when nothing but the names of machines and gangs and the ages of gangs tells them
apart, and those ages leave everybody's turn where it is. Where a topology or the neighbours count,
no machine is like another.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence

from headrace.scheduling.eligibility import is_eligible
from headrace.scheduling.gangs import (
    ABOVE,
    AT,
    BELOW,
    PLACED,
    Gang,
    Group,
    Place,
    Role,
    Shape,
    Task,
    members_of,
)
from headrace.scheduling.lineup import Lineup
from headrace.scheduling.turns import GangKey, gang_key
from headrace.scheduling.victims import Chunk
from headrace.scheduling.world import World


class Likeness:
    """Of all searches while the world stands still."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._turns = world.while_still(Lineup).turns
        self._begins_us = sorted(max(world.now_us, r.at_us) for r in world.reservations.values())
        self._promised = {
            seat.place.node for one in world.reservations.values() for seat in one.seats
        }
        self._machines: dict[str, Hashable] = {}
        self._gangs: dict[str, Hashable] = {}

    def key(self, gang: Gang, chunks: Sequence[Chunk]) -> Hashable:
        """The same for scenarios of the gang that are alike; None for one that is like no other."""
        gangs: dict[str, int] = {}
        nodes: dict[str, int] = {}
        shapes = dict.fromkeys(task.shape for task in gang.all_tasks())
        losses: list[Hashable] = []
        for chunk in chunks:
            losses.append(gangs.setdefault(chunk.gang, len(gangs)))
            for loss in chunk.losses:
                task, number = loss.task, nodes.setdefault(loss.node, len(nodes))
                losses.append((number, _said_of(task), _spot(task.place), _spot(task.coming)))
                shapes[task.shape] = None
        if not all(map(_is_anywhere, (gang, *map(self._world.gangs.__getitem__, gangs)))):
            return None
        kinds = [self._kind_of(name, gang, nodes) for name in gangs]
        machines = [(self._machine_of(node), self._takes(node, shapes)) for node in nodes]
        return (*losses, *kinds, *machines)

    def _kind_of(self, name: str, gang: Gang, nodes: Mapping[str, int]) -> Hashable:
        """All that counts of another gang, its machines by their numbers."""
        other = self._world.gangs[name]
        if name not in self._gangs:
            self._gangs[name] = self._describe(other)
        comes_first: tuple[bool, ...] = ()
        if other.queue == gang.queue:
            mine = gang_key(gang, gang.standing())
            comes_first = tuple(key < mine for key in _turns_of(other))
        places = (task.coming or task.place for task in other.all_tasks() if task.state in PLACED)
        there = tuple(nodes.get(place.node, place.node) for place in places if place)
        return (self._gangs[name], comes_first, there)

    def _describe(self, gang: Gang) -> Hashable:
        world, waiting = self._world, self._turns.get(gang.queue, [])
        before = tuple(bisect_left(waiting, key) for key in _turns_of(gang))
        tasks = tuple((task.state, _said_of(task)) for task in gang.all_tasks())
        firm = (gang.preemptible, gang.protected_minimum, gang.name in world.gains)
        rank = (gang.queue, gang.priority, gang.standing(), before, firm)
        return (rank, gang.root, gang.options, gang.room_by_us, self._ends(gang), tasks)

    def _ends(self, gang: Gang) -> tuple[int, int]:
        """Which reservations begin before it ends at the latest."""
        end_us = self._world.end_of(gang) if self._begins_us else 0
        return bisect_left(self._begins_us, end_us), bisect_right(self._begins_us, end_us)

    def _machine_of(self, name: str) -> Hashable:
        """All that counts of a machine but for who may be there."""
        known = self._machines.get(name)
        if known is None:
            machine = self._world.machines[name]
            spec = machine.spec
            promised = name if name in self._promised else ""
            kinds = (spec.devices, spec.kinds, spec.models, spec.model, spec.device_memory_bytes)
            has = (kinds, spec.cpu_milli, spec.memory_bytes, spec.tasks_max, spec.pool)
            books = (*map(tuple, machine.milli), *map(tuple, machine.taken))
            coming = tuple(bank.wholes_coming for bank in machine.banks)
            known = self._machines[name] = (promised, has, books, coming)
        return known

    def _takes(self, name: str, shapes: Iterable[Shape]) -> tuple[bool, ...]:
        machine = self._world.machines[name]
        return tuple(is_eligible(shape, machine) for shape in shapes)


def _turns_of(gang: Gang) -> list[GangKey]:
    """Where it stands in its queue, however much of it was evicted."""
    return [gang_key(gang, standing) for standing in (BELOW, AT, ABOVE)]


def _said_of(task: Task) -> Hashable:
    """What a task asks for, and its turn among those of its gang."""
    return (task.role, task.priority, task.rank, task.shape, task.firm, task.tags)


def _spot(place: Place | None) -> Hashable:
    """Where it is on its machine."""
    if place is None:
        return None
    return (place.amounts, place.devices, place.milli, place.count, place.bank)


def _is_anywhere(gang: Gang) -> bool:
    """Whether neither a topology nor its neighbours say where it may be."""
    if any(task.shape.near is not None for task in gang.all_tasks()):
        return False
    return not _is_bound(gang.root)


def _is_bound(member: Group | Role) -> bool:
    inner = members_of(member) if isinstance(member, Group) else ()
    return member.constraint is not None or any(map(_is_bound, inner))
