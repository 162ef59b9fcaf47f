"""Which machines have no room for a task, and why not.

Rule: the first thing that excludes a machine counts, from what can never change to what others have
taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from headrace.scheduling.eligibility import asked_by
from headrace.scheduling.gangs import PLACED, Gang, Shape, Task
from headrace.scheduling.machines import Machine, takes
from headrace.scheduling.part_barriers import barred_cells
from headrace.scheduling.world import World

NOT_ACCEPTING = "silent or cordoned"
DISK_FULL = "its disk is full"
ELSEWHERE = "outside its pools, volumes or labels"
NO_ENGINE = "no container engine for its image"
TAINTED = "not for its user's jobs"
OTHER_KIND = "another kind of GPU"
TOO_SMALL = "too small"
TAKEN = "taken"
BARRED = "of GPUs of which its project has all it may have"
OWN = "already has a worker of it"
OPEN_TO = (TAKEN, OWN, BARRED, NOT_ACCEPTING, DISK_FULL)  # what would pass


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What `tasks` of one role look for: any of `shapes` on `needed` machines, of which so many are
    `excluded`, by reason; `able` ones could hold them some time, `fits` now.
    """

    tasks: Sequence[Task]
    shapes: tuple[Shape, ...]
    excluded: Counter[str]
    needed: int
    able: int
    fits: int


def searches(world: World, gang: Gang, tasks: Sequence[Task]) -> list[Search]:
    """What the roles of these tasks look for, who finds least first."""
    roles = dict.fromkeys(task.role for task in tasks)
    found = [_search(world, gang, [t for t in tasks if t.role == role]) for role in roles]
    return sorted(found, key=lambda s: (s.able >= s.needed, s.fits >= s.needed))


def _search(world: World, gang: Gang, tasks: Sequence[Task]) -> Search:
    shapes = asked_by(gang, tasks[0].role)
    excluded = min((_excluded(world, gang, tasks[0].role, s) for s in shapes), key=_rank)
    fits = len(world.machines) - excluded.total()
    return Search(
        tasks=tasks,
        shapes=shapes,
        excluded=excluded,
        needed=len(tasks) if tasks[0].shape.apart else 1,
        able=fits + sum(excluded[reason] for reason in OPEN_TO),
        fits=fits,
    )


def _excluded(world: World, gang: Gang, role: str, shape: Shape) -> Counter[str]:
    """The machines without room for a task of this shape, by the first thing that excludes them."""
    mine = (task for task in gang.tasks[role] if task.state in PLACED)
    own = {place.node for task in mine if (place := task.coming or task.place)}
    found: Counter[str] = Counter()
    barred = barred_cells(world, gang, shape)
    for name, machine in world.machines.items():
        spec = machine.spec
        if (shape.only is not None and name not in shape.only) or any(
            spec.labels.get(label) != value for label, value in shape.labels
        ):
            found[ELSEWHERE] += 1
        elif not all(taint in shape.tolerations for taint in spec.taints):
            found[TAINTED] += 1
        elif shape.contained and not spec.has_engine:
            found[NO_ENGINE] += 1
        elif shape.devices and not any(takes(shape, kind) for kind, _ in spec.usable):
            found[OTHER_KIND] += 1
        elif Machine(spec).fit(shape) is None:
            found[TOO_SMALL] += 1
        elif not spec.accepting:
            found[DISK_FULL if spec.is_full else NOT_ACCEPTING] += 1
        elif shape.apart and name in own:
            found[OWN] += 1
        elif barred and barred.keys() >= set(world.parted.cells_on(machine, shape)):
            found[BARRED] += 1
        elif (fit := machine.fit(shape)) is None or not fit[1]:
            found[TAKEN] += 1
    return found


def _rank(excluded: Counter[str]) -> tuple[int, int]:
    return excluded.total(), excluded.total() - excluded[TAKEN]
