"""What a turn does: allocate, consolidate, reclaim, preempt, evict stale gangs.

Rule: each action goes through the gangs in the order of their turns; only what is legal and needed
is evicted, and only for a gang that is then placed. What an action does it does to the `World`,
whose tasks' states are the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import eq

import msgspec

from headrace.scheduling.amounts import GPU, UNLIMITED
from headrace.scheduling.gangs import PENDING, PIPELINED, PLACED, Gang
from headrace.scheduling.lines import Heads
from headrace.scheduling.placing import choices, place_gang, request_of, taker_of
from headrace.scheduling.protection import safe_from_preemption
from headrace.scheduling.reclaiming import searches, stakes_of
from headrace.scheduling.refusals import Refusals
from headrace.scheduling.search import make_room
from headrace.scheduling.turns import Turns
from headrace.scheduling.victims import Chunk, Search, left_of
from headrace.scheduling.world import World


def always(_: Gang) -> bool:
    """Whatever it is."""
    return True


def allocate(world: World, placed_max: int = UNLIMITED) -> bool:
    """Place those whose reservations have begun; then every gang that fits, its minimum first, then
    one more task per turn; at most so many. Whether that was all.
    """
    for due in world.due():
        placed_max -= any(place_gang(world, due, promised=False) for _ in choices(world, due))
        if not placed_max:
            return False
    heads = _heads(world, again=False)
    while (gang := heads.take()) is not None:
        if not any(place_gang(world, gang, promised=False) for _ in choices(world, gang)):
            continue  # nor would any like it
        placed_max -= 1
        if not placed_max:
            return False
        if gang.any_in((PENDING,)):
            heads.again(gang)
        heads.go_on(gang)
    return True


def consolidate(world: World, budget: Budget) -> None:
    """Move preemptible work so that a gang that has waited fits; nobody is left without a place."""
    search = Search(
        reaches=_everywhere, may_lose=_is_preemptible, keeps_minimum=_nobody, accepts=_all_stay
    )
    for gang in _evicting(world, "consolidate", budget, partial(_could_be_gathered, world)):
        any(make_room(world, gang, search) for _ in choices(world, gang))


def reclaim(world: World, budget: Budget) -> None:
    """Take back, for queues within their share, what others hold beyond theirs."""
    for gang in _evicting(world, "reclaim", budget):
        any(
            make_room(world, gang, search)
            for _ in choices(world, gang)
            for search in searches(world, gang)
        )


def preempt(world: World, budget: Budget) -> None:
    """Take from the same queue what is less important."""
    for gang in _evicting(world, "preempt", budget, partial(_has_less_important, world)):
        taker = taker_of(world, gang)
        if taker.preemptible or not world.accounts.quota_barrier(gang.queue, taker.request):
            search = Search(
                reaches=partial(eq, gang.queue),
                may_lose=partial(_is_less_important, gang),
                keeps_minimum=partial(_preempts_surplus, world),
                accepts=_anything,
            )
            any(make_room(world, gang, search) for _ in choices(world, gang))


def evict_stale(world: World, _: Budget) -> None:
    """Evict what is left of gangs that have been below their minimum for too long."""
    holders = chain.from_iterable(gangs.values() for gangs in world.holders.values())
    for gang in sorted((gang for gang in holders if _is_overdue(world, gang)), key=_age):
        for task in list(gang.all_tasks()):
            if task.state in PLACED:
                world.evict(task)


def bind(world: World, _: Budget) -> None:
    """Give at once what was promised and turns out to be free: whoever was placed in this turn
    and made way for somebody else in it has nothing to stop.
    """
    promised = dict.fromkeys(t.gang for t in world.changed(0) if t.state == PIPELINED)
    for name in promised:
        gang = world.gangs[name]
        tasks = [task for task in gang.all_tasks() if task.state == PIPELINED]
        if any(task.place is not None for task in tasks):
            continue  # it moves: what it has goes first
        mark = world.mark()
        for task in tasks:
            world.evict(task)
        if not place_gang(world, gang, promised=False) or gang.any_in((PIPELINED,)):
            world.back_to(mark)


EVICTING: dict[str, Callable[[World, Budget], None]] = {
    "consolidate": consolidate,
    "reclaim": reclaim,
    "preempt": preempt,
    "evict_stale": evict_stale,
    "bind": bind,
}
ACTIONS = ("allocate", *EVICTING)


def take_turn(
    world: World,
    actions: Iterable[str] = ACTIONS,
    *,
    placed_max: int = UNLIMITED,
    steps_max: int = UNLIMITED,
    resume: Suspended | None = None,
) -> Suspended | None:
    """Do these actions, one after the other; none that evicts while there is more to allocate than
    `placed_max` gangs. After about `steps_max` steps no further search is begun: what is returned
    says where the next turn goes on (`resume`), so that nobody's search is put off for ever.
    """
    budget = Budget(world, steps_max, resume)
    for action in actions:
        if action == "allocate":
            if not allocate(world, placed_max):
                return resume
        elif budget.allows(action):
            EVICTING[action](world, budget)
    return budget.suspended


class Suspended(msgspec.Struct, frozen=True, kw_only=True):
    """Whose search comes next, after a turn that ended for its number of steps."""

    action: str
    gang: str


class Budget:
    """What is left of a turn's steps, and where it goes on."""

    def __init__(self, world: World, steps_max: int, resume: Suspended | None) -> None:
        self._world = world
        self._end = world.steps + steps_max if steps_max != UNLIMITED else UNLIMITED
        self._resume = resume
        self.suspended: Suspended | None = None

    def allows(self, action: str) -> bool:
        """Whether anything of this action is to be done."""
        if self._resume is not None and not _is_waiting(self._world, self._resume.gang):
            self._resume = None  # it has its place by now
        return self.suspended is None and self._resume in (None, self._resume_of(action))

    def allows_for(self, action: str, gang: Gang) -> bool:
        """Whether the gang's search is to be done now; notes the first that is not any more."""
        if self._resume is not None:
            if self._resume.gang != gang.name:
                return False
            self._resume = None
        if self._end != UNLIMITED and self._world.steps >= self._end and self.suspended is None:
            self.suspended = Suspended(action=action, gang=gang.name)
        return self.suspended is None

    def _resume_of(self, action: str) -> Suspended | None:
        return self._resume if self._resume and self._resume.action == action else None


def _heads(
    world: World,
    *,
    again: bool,
    may: Callable[[Gang], bool] = always,
) -> Heads:
    turns = Turns(
        world.accounts,
        lambda name: request_of(world, world.gangs[name], again=again),
        lambda name: stakes_of(world, world.gangs[name], again=again),
    )
    grows = not again or world.settings.growth_evicts
    return Heads(world.lines, world.gangs, turns, may, apart=world.reservations, grows=grows)


def _evicting(
    world: World,
    rule: str,
    budget: Budget,
    may: Callable[[Gang], bool] = always,
) -> Iterator[Gang]:
    """The gangs that may have others evicted, in turn order, without those that ask for as much as
    one for which nothing could be done while nothing has changed.
    """

    def may_evict(gang: Gang) -> bool:
        return _has_waited(world, gang, gang.patience_us) and may(gang)

    heads, refusals = _heads(world, again=True, may=may_evict), Refusals()
    while (gang := heads.take()) is not None:
        mark = world.mark()
        if not refusals.cover(gang) and budget.allows_for(rule, gang):
            yield gang
            if world.mark() == mark:
                refusals.add(gang)
        if world.mark() == mark:
            heads.close(gang)
            continue
        world.note(rule, gang, mark)
        heads.go_on(gang)
        heads.reopen()
        refusals.clear()


def _has_waited(world: World, gang: Gang, wait_us: int) -> bool:
    return world.now_us - gang.submitted_at_us >= wait_us


def _is_overdue(world: World, gang: Gang) -> bool:
    grace_us = gang.staleness_grace_us
    if grace_us is None:
        grace_us = world.settings.staleness_grace_us
    since_us = world.now_us if gang.stale_since_us is None else gang.stale_since_us
    return 0 <= grace_us <= world.now_us - since_us and gang.is_stale()


def _age(gang: Gang) -> tuple[int, str]:
    return (gang.age, gang.name)


def _could_be_gathered(world: World, gang: Gang) -> bool:
    if not gang.preemptible or not _has_waited(world, gang, world.settings.consolidate_after_us):
        return False
    return request_of(world, gang, again=True)[GPU] <= world.free_milli


def _has_less_important(world: World, gang: Gang) -> bool:
    holders = world.holders.get(gang.queue, {})
    return any(_is_less_important(gang, other) for other in holders.values())


def _is_waiting(world: World, name: str) -> bool:
    gang = world.gangs.get(name)
    return gang is not None and gang.any_in((PENDING,))


def _is_preemptible(other: Gang) -> bool:
    return other.preemptible


def _is_less_important(gang: Gang, other: Gang) -> bool:
    return other.preemptible and other.priority < gang.priority


def _preempts_surplus(world: World, other: Gang) -> bool:
    return safe_from_preemption(world.accounts, other, world.now_us)


def _nobody(_: Gang) -> bool:
    return False


def _everywhere(_: str) -> bool:
    return True


def _anything(_: Sequence[Chunk]) -> bool:
    return True


def _all_stay(chunks: Sequence[Chunk]) -> bool:
    return not left_of(chunks)
