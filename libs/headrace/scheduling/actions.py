"""What a turn does: allocate, consolidate, reclaim, preempt, evict stale gangs.

Rule: each action goes through the gangs in the order of their turns; only what is legal and needed
is evicted, and only for a gang that is then placed. What an action does it does to the `World`,
whose tasks' states are the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import not_

from headrace.scheduling.gangs import PENDING, PLACED, Gang, is_ready
from headrace.scheduling.legality import Standing, Taker, is_legal, may_lose, may_take
from headrace.scheduling.placing import place_gang, request_of
from headrace.scheduling.protection import safe_from_preemption, safe_from_reclaim
from headrace.scheduling.refused import Refused
from headrace.scheduling.search import Left, Search, make_room
from headrace.scheduling.turns import Turns
from headrace.scheduling.world import World


def allocate(world: World) -> None:
    """Place every gang that fits, its minimum first, then one more task per turn."""
    turns = _turns(world, world.gangs.values(), again=False)
    refused = Refused(world)
    while (name := turns.take()) is not None:
        gang = world.gangs[name]
        if refused.has(gang):
            continue
        if not place_gang(world, gang, promised=False):
            refused.add(gang)
        elif gang.any_in((PENDING,)):
            turns.put(gang, gang.standing())


def consolidate(world: World) -> None:
    """Move preemptible work so that a gang fits; nobody is left without a place."""
    for gang in _evicting(world):
        if gang.preemptible and _fits_in_total(world, gang):
            make_room(world, gang, Search(may_lose=_anyone, keeps_minimum=_nobody, accepts=not_))


def reclaim(world: World) -> None:
    """Take back, for queues within their share, what others hold beyond theirs."""
    for gang in _evicting(world):
        standings = world.accounts.standings()
        request = request_of(world, gang, again=True)
        taker = Taker(queue=gang.queue, request=request, preemptible=gang.preemptible)
        if may_take(standings, taker):
            search = Search(
                may_lose=partial(_is_reclaimable, standings, taker),
                keeps_minimum=partial(_reclaims_surplus, world, gang),
                accepts=partial(is_legal, standings, taker),
            )
            make_room(world, gang, search)


def preempt(world: World) -> None:
    """Take from the same queue what is less important."""
    for gang in _evicting(world):
        request = request_of(world, gang, again=True)
        if gang.preemptible or world.accounts.quota_barrier(gang.queue, request) is None:
            search = Search(
                may_lose=partial(_is_less_important, gang),
                keeps_minimum=partial(_preempts_surplus, world),
                accepts=_anything,
            )
            make_room(world, gang, search)


def evict_stale(world: World) -> None:
    """Evict what is left of gangs that have been below their minimum for too long."""
    for gang in world.gangs.values():
        grace_us = gang.staleness_grace_us
        if grace_us is None:
            grace_us = world.settings.staleness_grace_us
        since_us = world.now_us if gang.stale_since_us is None else gang.stale_since_us
        if grace_us < 0 or world.now_us - since_us < grace_us or not gang.is_stale():
            continue
        for task in list(gang.all_tasks()):
            if task.state in PLACED:
                world.evict(task)


ACTIONS: dict[str, Callable[[World], None]] = {
    "allocate": allocate,
    "consolidate": consolidate,
    "reclaim": reclaim,
    "preempt": preempt,
    "evict_stale": evict_stale,
}


def take_turn(world: World, actions: Iterable[str] = tuple(ACTIONS)) -> None:
    """Do these actions, one after the other."""
    for action in actions:
        ACTIONS[action](world)


def _turns(world: World, gangs: Iterable[Gang], *, again: bool) -> Turns:
    """Those of the gangs that have something to place and enough tasks for it."""
    turns = Turns(world.accounts, lambda name: request_of(world, world.gangs[name], again=again))
    for gang in gangs:
        if gang.any_in((PENDING,)) and is_ready(gang, gang.root):
            turns.put(gang, gang.standing())
    return turns


def _evicting(world: World) -> Iterator[Gang]:
    """The gangs that may have others evicted, in turn order, without those like one for which
    nothing could be done.
    """
    patient = (
        gang
        for gang in world.gangs.values()
        if world.now_us - gang.submitted_at_us >= gang.patience_us
    )
    turns = _turns(world, patient, again=True)
    refused = Refused(world)
    while (name := turns.take()) is not None:
        gang = world.gangs[name]
        if refused.has(gang):
            continue
        mark = world.mark()
        yield gang
        if world.mark() == mark:
            refused.add(gang)


def _fits_in_total(world: World, gang: Gang) -> bool:
    wanted = request_of(world, gang, again=True)[0]
    return wanted <= sum(machine.free_milli for machine in world.machines.values())


def _is_reclaimable(standings: dict[str, Standing], taker: Taker, other: Gang) -> bool:
    return other.queue != taker.queue and may_lose(standings, taker, other.queue)


def _is_less_important(gang: Gang, other: Gang) -> bool:
    return other.queue == gang.queue and other.priority < gang.priority


def _reclaims_surplus(world: World, gang: Gang, other: Gang) -> bool:
    return safe_from_reclaim(world.accounts, gang.queue, other, world.now_us)


def _preempts_surplus(world: World, other: Gang) -> bool:
    return safe_from_preemption(world.accounts, other, world.now_us)


def _nobody(_: Gang) -> bool:
    return False


def _anyone(_: Gang) -> bool:
    return True


def _anything(_: Left) -> bool:
    return True
