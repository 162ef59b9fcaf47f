"""Who waits and who could lose something, in their order: the same for every search of an action.

Rule: made anew after every change of the world (`World.while_still`); counted in steps.
"""

from __future__ import annotations

from headrace.scheduling.amounts import Amounts
from headrace.scheduling.gangs import PLACED, Gang
from headrace.scheduling.placing import request_of
from headrace.scheduling.turns import GangKey, gang_key
from headrace.scheduling.world import World

HOLDERS_PER_STEP = 64  # ordered in about the time of one try


class Lineup:
    """The first of each line that waits, with what they ask for, by root of the queue tree
    (`waiting`) and in the order of their queue (`turns`); and holders, queue by queue.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._holders: dict[str, list[GangKey]] = {}
        self.waiting: dict[str, dict[str, Amounts]] = {}
        self.turns: dict[str, list[GangKey]] = {}
        for name in world.lines.heads(world.gangs):
            gang = world.gangs[name]
            asks = request_of(world, gang, again=True)
            self.waiting.setdefault(self.root_of(name), {})[name] = asks
            self.turns.setdefault(gang.queue, []).append(gang_key(gang, gang.standing()))
        for keys in self.turns.values():
            keys.sort()

    def root_of(self, name: str) -> str:
        """The root above a gang's queue; empty when nobody knows the queue."""
        account = self._world.accounts.by_name.get(self._world.gangs[name].queue)
        return account.path[-1].spec.queue if account is not None else ""

    def holders(self, queue: str) -> list[GangKey]:
        """Who has something that may be taken, the first to lose it last; who waits with a
        reservation only has what this turn gave it.
        """
        known = self._holders.get(queue)
        if known is None:
            world, others = self._world, self._world.holders.get(queue, {})
            known = self._holders[queue] = sorted(
                gang_key(one, one.standing())
                for one in others.values()
                if one.preemptible and one.name not in world.reservations and one.any_in(PLACED)
            )
            world.steps += len(others) // HOLDERS_PER_STEP
        return known

    def gangs(self, queue: str) -> list[Gang]:
        """The same, as gangs."""
        return [self._world.gangs[key[-1]] for key in self.holders(queue)]
