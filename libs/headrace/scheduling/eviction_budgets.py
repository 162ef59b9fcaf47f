"""How many gangs may still be evicted from a queue for the sake of others.

Rule: in any `evictions_per_us` at most `evictions_max` gangs are evicted from a queue and all that
is below it together; a gang counts once, at every level above it. Whose queue has no budget left is
safe until the first of those counted leaves the window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from headrace.scheduling.division import QueueSpec
from headrace.scheduling.gangs import Gang
from headrace.scheduling.world import World


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that may lose nobody before `free_at_us`."""

    queue: str
    evictions_max: int
    per_us: int
    free_at_us: int


class EvictionBudgets:
    """The budgets at this point of a turn, less those who lose what they have in it already."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._left: dict[str, int] = {}
        if world.accounts.budgeted:
            now = self._count(world.gangs[name] for name in world.gains)
            for spec in world.accounts.budgeted:
                past = _in_window(world.evictions.get(spec.queue, ()), spec, world.now_us)
                self._left[spec.queue] = spec.evictions_max - past - now[spec.queue]

    def allow(self, gangs: Iterable[Gang]) -> bool:
        """Whether all of these may be evicted."""
        if not self._left:
            return True
        asked = self._count(gang for gang in gangs if gang.name not in self._world.gains)
        return all(count <= self._left.get(queue, count) for queue, count in asked.items())

    def spent_on(self, gang: Gang) -> Spent | None:
        """The first queue, from the gang's own up, that has no budget left for it."""
        if self._left and gang.name not in self._world.gains:
            for account in self._world.accounts.by_name[gang.queue].path:
                if self._left.get(account.spec.queue, 1) <= 0:
                    return self._spent(account.spec)
        return None

    def _spent(self, spec: QueueSpec) -> Spent:
        evictions = self._world.evictions.get(spec.queue, ())[-spec.evictions_max :]
        first_us = evictions[0] if evictions else self._world.now_us
        return Spent(
            queue=spec.queue,
            evictions_max=spec.evictions_max,
            per_us=spec.evictions_per_us,
            free_at_us=first_us + spec.evictions_per_us,
        )

    def _count(self, gangs: Iterable[Gang]) -> Counter[str]:
        found: Counter[str] = Counter()
        for gang in gangs:
            account = self._world.accounts.by_name.get(gang.queue)
            found.update(above.spec.queue for above in (account.path if account else ()))
        return found


def counted(evictions: Sequence[int], at_us: int, evictions_max: int, per_us: int) -> list[int]:
    """The evictions that still matter with one more at `at_us`: no more than a budget's number."""
    kept = [us for us in (*evictions, at_us) if us > at_us - per_us]
    return sorted(kept)[-evictions_max:]


def _in_window(evictions: Sequence[int], spec: QueueSpec, now_us: int) -> int:
    return len(evictions) - bisect_right(evictions, now_us - spec.evictions_per_us)
