"""Which machine a task goes to: every machine on which it fits, best first.

Rule: a machine whose shared GPU has room, then one where it fits at once, then, for a task without
GPUs, one without GPUs, then the fullest (or the emptiest, to spread), then by name. A ranking is
kept per shape and only what was touched since is ranked again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from headrace.scheduling.gangs import Shape
from headrace.scheduling.machines import Machine, MachineSpec, takes
from headrace.scheduling.world import World

Key = tuple[int, int, int, int, str]


class Ranking:
    """The machines for one shape. What was eligible when it was made stays so for the turn."""

    def __init__(self, world: World, shape: Shape) -> None:
        self._world = world
        self._shape = shape
        self._keys: dict[str, Key] = {}
        self._order: list[Key] = []
        self._eligible = {
            name for name, machine in world.machines.items() if is_eligible(shape, machine.spec)
        }
        self._seen = len(world.touched)
        for name in world.machines:
            if name in self._eligible and (key := self._key(name)) is not None:
                self._keys[name] = key
                self._order.append(key)
        self._order.sort()

    def names(self) -> Iterator[str]:
        """Best first; ends early if the caller changes anything."""
        touched = self._world.touched
        for name in dict.fromkeys(touched[self._seen :]):
            if name in self._eligible:
                self._again(name)
        self._seen = len(touched)
        return (key[-1] for key in self._order)

    def _again(self, name: str) -> None:
        old, new = self._keys.pop(name, None), self._key(name)
        if old is not None:
            del self._order[bisect_left(self._order, old)]
        if new is not None:
            self._keys[name] = new
            insort(self._order, new)

    def _key(self, name: str) -> Key | None:
        machine, shape, settings = self._world.machines[name], self._shape, self._world.settings
        found = machine.fit(shape)
        if found is None:
            return None
        spec = machine.spec
        shares = shape.is_shared and machine.has_shared_room(shape)
        if shape.devices:
            free, have, spread = machine.free_milli, spec.devices, settings.spread_gpu
        else:
            free, have, spread = machine.free_later[1], spec.cpu_milli, settings.spread_cpu
        rank = -(free * 1000 // max(1, have)) if spread else free
        bare = shape.devices or not spec.devices
        return (int(not shares), int(not found[1]), int(not bare), rank, name)


def ranked(world: World, shape: Shape) -> Iterator[str]:
    """The machines on which a task of this shape fits by its numbers, best first."""
    ranking = world.rankings.get(shape)
    if ranking is None:
        ranking = world.rankings[shape] = Ranking(world, shape)
    return ranking.names()


def is_eligible(shape: Shape, spec: MachineSpec) -> bool:
    """Whether the machine takes tasks of this shape at all, full or not."""
    if not spec.accepting:
        return False
    if shape.only is not None and spec.name not in shape.only:
        return False
    if any(spec.labels.get(label) != value for label, value in shape.labels):
        return False
    if not all(taint in shape.tolerations for taint in spec.taints):
        return False
    return not shape.devices or any(takes(shape, kind) for kind, _ in spec.usable)


def could_hold(world: World, shape: Shape) -> bool:
    """Whether a task of this shape would fit on any machine if nothing else was on it."""
    known = world.holdable.get(shape)
    if known is None:
        known = world.holdable[shape] = any(
            is_eligible(shape, machine.spec) and Machine(machine.spec).fit(shape) is not None
            for machine in world.machines.values()
        )
    return known
