"""The last look at limits of parts of the fleet before a placement is recorded.

Rule: what is being stopped counts until it is released, as it does for the limits of all GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.scheduling.amounts import GPU
from headrace.scheduling.gangs import RELEASING, Gang, Place
from headrace.scheduling.part_legality import Stakes, may_take_part
from headrace.scheduling.reclaiming import part_takers
from headrace.scheduling.world import World


def stakes_of(world: World, places: Iterable[Place]) -> Stakes:
    """Milli-GPUs of these places by the number of the part."""
    stakes: dict[int, int] = {}
    for place in places:
        for number in world.cell_at(place):
            stakes[number] = stakes.get(number, 0) + place.amounts[GPU]
    return stakes


def guaranteed_part(world: World, gang: Gang) -> int | None:
    """The number of a part that the gang needs and that its queue is guaranteed more of."""
    standings = world.accounts.standings()
    takers = part_takers(world, gang, again=True)
    return next((one.part for one in takers if may_take_part(standings, one)), None)


class PartGate:
    """The placements of one turn, one after the other: each counts for the next."""

    def __init__(self, world: World) -> None:
        self._accounts = world.accounts
        self._more: dict[tuple[str, int], tuple[int, int]] = {}  # than runs; in all and firm
        for name in world.leaving if world.parted.any else ():
            gang = world.gangs[name]
            leaving = [t.place for t in gang.all_tasks() if t.state == RELEASING and t.place]
            self._add(gang, stakes_of(world, leaving))

    def admits(self, gang: Gang, stakes: Stakes) -> bool:
        """Whether no limit forbids the gang what it would get; it has got it then."""
        firm, parts = not gang.preemptible, self._accounts.parts.all
        for number, milli in stakes.items():
            for account in self._accounts.by_name[gang.queue].path:
                more, more_firm = self._more.get((account.spec.queue, number), (0, 0))
                asked = (more + milli, more_firm + milli if firm else 0)
                if account.part_barrier((number, parts[number]), *asked) is not None:
                    return False
        self._add(gang, stakes)
        return True

    def _add(self, gang: Gang, stakes: Stakes) -> None:
        account = self._accounts.by_name.get(gang.queue)
        path = account.path if account is not None else []
        for number, milli in stakes.items():
            for each in path:
                key = (each.spec.queue, number)
                more, firm = self._more.get(key, (0, 0))
                self._more[key] = (more + milli, firm if gang.preemptible else firm + milli)
