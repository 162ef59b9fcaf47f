"""Whether a task may be where there is room for it.

Rule: the limits of its queue there, and which others are near, say so; who waits for what is asked
elsewhere.
"""

from __future__ import annotations

from headrace.scheduling.amounts import GPU
from headrace.scheduling.gangs import PLACED, Nearness, Place, Task
from headrace.scheduling.part_barriers import cell_barrier
from headrace.scheduling.world import World


def is_allowed(world: World, task: Task, place: Place) -> bool:
    """Whether what the task takes on this very machine is within every limit."""
    gang = world.gangs[task.gang]
    if world.parted.any and cell_barrier(
        world, gang, world.cell_at(place), place.amounts[GPU], firm=task.firm
    ):
        return False
    if not task.shape.device_memory_bytes:
        return True
    firm = task.firm
    return world.accounts.barrier(gang.queue, place.amounts, firm=firm) is None


def is_near(world: World, near: Nearness, name: str) -> bool:
    """Whether others with the tags are (or are not) in the machine's domains."""
    labels = world.machines[name].spec.labels
    for label, wanted in ((near.with_label, True), (near.apart_label, False)):
        if not label:
            continue
        found = any(
            world.machines[place.node].spec.labels.get(label) == labels.get(label)
            for gang in world.gangs.values()
            for task in gang.all_tasks()
            if task.state in PLACED and set(near.tags) <= set(task.tags)
            if (place := task.coming or task.place) is not None and place.node in world.machines
        )
        if found != wanted:
            return False
    return True
