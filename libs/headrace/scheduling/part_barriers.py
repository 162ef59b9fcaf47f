"""What forbids a gang GPUs of parts of the fleet.

Rule: nothing is forbidden that could be allowed elsewhere; the place itself is judged at last.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.scheduling.accounts import Barrier
from headrace.scheduling.amounts import GPU
from headrace.scheduling.gangs import Gang, Shape, Task, next_tasks
from headrace.scheduling.parts import Cell
from headrace.scheduling.world import World


def part_barrier_of(world: World, gang: Gang, tasks: Sequence[Task]) -> Barrier | None:
    """Which limit or quota of a part of the fleet the tasks would pass wherever they are placed."""
    needed: dict[int, int] = {}
    firm = any(task.firm for task in tasks)
    for task in tasks:
        milli = task.shape.amounts(world.fleet.memory_max_bytes)[GPU]
        for number in world.parted.needs(task.shape):
            needed[number] = needed.get(number, 0) + milli
    for number, milli in sorted(needed.items()):
        if found := cell_barrier(world, gang, (number,), milli, firm=firm):
            return found
    for shape in dict.fromkeys(task.shape for task in tasks):
        cells = world.parted.cells_of(shape)
        barred = barred_cells(world, gang, shape)
        if cells and len(barred) == len(cells):
            return barred[cells[0]]
    return None


def barred_cells(world: World, gang: Gang, shape: Shape) -> dict[Cell, Barrier]:
    """Of which parts of the fleet the gang may not have one more such task, and why."""
    milli = shape.amounts(world.fleet.memory_max_bytes)[GPU]
    cells = world.parted.cells_of(shape) if world.parted.any else ()
    firm = any(task.firm for task in next_tasks(gang, again=True))
    found = ((cell, cell_barrier(world, gang, cell, milli, firm=firm)) for cell in cells)
    return {cell: barrier for cell, barrier in found if barrier is not None}


def cell_barrier(world: World, gang: Gang, cell: Cell, milli: int, *, firm: bool) -> Barrier | None:
    """What forbids the gang so much of GPUs of just these parts."""
    return world.accounts.part_barrier(gang.queue, cell, milli, firm=firm)
