"""What did not fit, so that nothing like it is tried again before the world has changed.

Rule: two gangs are alike when they wait with nothing placed in the same queue, with the same rank,
and ask for the same; only their names and ages differ. Of those the oldest speaks for all.
"""

from __future__ import annotations

from collections.abc import Hashable

from headrace.scheduling.gangs import PENDING, Gang
from headrace.scheduling.world import World


class Refused:
    """The kinds of gangs that did not fit in the world as it is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mark = world.mark()
        self._kinds: set[Hashable] = set()

    def has(self, gang: Gang) -> bool:
        """Whether one like this gang did not fit and nothing has changed since."""
        if self._world.mark() != self._mark:
            self._mark = self._world.mark()
            self._kinds.clear()
        if not self._kinds or gang.name in self._world.reservations:
            return False  # only it may use what is reserved for it
        return kind_of(gang) in self._kinds

    def add(self, gang: Gang) -> None:
        """Note that this gang does not fit in the world as it is."""
        if all(task.state == PENDING for task in gang.all_tasks()):
            self._kinds.add(kind_of(gang))


def kind_of(gang: Gang) -> Hashable:
    """What gangs that are alike have in common."""
    asks = tuple(
        (task.state, task.role, task.priority, task.shape, task.tags) for task in gang.all_tasks()
    )
    traits = (gang.queue, gang.priority, gang.preemptible, gang.max_duration_us, gang.root)
    return (*traits, asks)
