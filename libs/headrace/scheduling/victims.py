"""Whom to stop so that a gang of a queue within its quota can run.

Rule: only preemptible work above its queue's quota is ever taken, compared at the level where the
two paths part; nothing is taken that turns out not to be needed; the search counts its steps and
gives up at `STEPS_MAX`, which depends on the state alone and never on time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import msgspec

from headrace.events.jobs import Gang
from headrace.scheduling.cluster import Booking, Scratch
from headrace.scheduling.fitting import Fitting
from headrace.scheduling.tree import Tree

STEPS_MAX = 400  # victims tried for one gang: more would make a turn too long


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A running gang that could be stopped. `placed_at` is the position of its placement."""

    job: str
    queue: str
    priority: int
    placed_at: int
    booking: Booking


class Gainer(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to make room for: the gang, which takes at most `milli` thousandths for `queue`."""

    gang: Gang
    queue: str
    milli: int


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """A gang to stop, and the numbers that allow it: at `level`, its queue there holds
    `held_milli` of a quota of `quota_milli`.
    """

    job: str
    level: str
    held_milli: int
    quota_milli: int


class Reclaim(msgspec.Struct, frozen=True, kw_only=True):
    """The gangs to stop, and where the gainer would then fit."""

    victims: tuple[Victim, ...]
    booking: Booking


def may_gain(tree: Tree, queue: str, milli: int, *, firm: bool) -> bool:
    """Whether a gang of this size may be served at others' expense at all."""
    return tree.within_quota(queue, milli) and tree.gate(queue, milli, firm=firm) is None


def search(
    scratch: Scratch,
    tree: Tree,
    candidates: Sequence[Candidate],
    gainer: Gainer,
    policy: str = "binpack",
) -> Reclaim | None:
    """The fewest gangs to stop so that the gainer's fits; None when no legal set within the step
    limit is enough.
    """
    able = [c for c in candidates if _judged(tree, c, gainer) is not None]
    able.sort(key=lambda c: (c.priority, -c.placed_at, c.job))
    steps = STEPS_MAX
    for order in _orders(able, gainer.gang.nodes):
        found = _greedy(Fitting(scratch.fork(), policy), tree, order[:steps], gainer)
        steps -= min(steps, len(order))
        if found is not None or not steps:
            return found
    return None


def _orders(able: list[Candidate], nodes: int) -> Iterator[list[Candidate]]:
    """In which orders to stop them, one after the other: lowest priority first, then the youngest;
    then so that room gathers where the gang needs it, on several nodes alike or on a single one.
    """
    yield able
    by_node: dict[str, list[Candidate]] = {}
    for candidate in able:
        by_node.setdefault(candidate.booking.workers[0].node, []).append(candidate)
    if nodes > 1:
        places = zip_longest(*(by_node[node] for node in sorted(by_node)))
        yield [candidate for place in places for candidate in place if candidate is not None]
    else:
        yield from (by_node[node] for node in sorted(by_node))


def _greedy(fitting: Fitting, tree: Tree, order: list[Candidate], gainer: Gainer) -> Reclaim | None:
    """Stop one after the other until the gang fits, each judged before it is taken."""
    after = Tree(tree.queues, {name: tree.used(name) for name in tree.queues}, tree.total_milli)
    chosen: list[tuple[Candidate, Victim]] = []
    for candidate in order:
        victim = _judged(after, candidate, gainer)
        if victim is None:
            continue
        after.add(candidate.queue, -candidate.booking.milli, firm=False)
        fitting.scratch.give(candidate.booking)
        chosen.append((candidate, victim))
        if fitting.fit(gainer.gang) is not None:
            return _without_needless(fitting, chosen, gainer.gang)
    return None


def _judged(tree: Tree, candidate: Candidate, gainer: Gainer) -> Victim | None:
    if candidate.booking.milli == 0:
        return None  # holds no GPU: no queue is above its quota because of it
    levels = tree.parting(gainer.queue, candidate.queue)
    if levels is None:
        return None
    mine, theirs = levels
    held, quota = tree.used(theirs).milli, tree.quota_milli(theirs)
    if not tree.within_quota(mine, gainer.milli) or held <= quota:
        return None
    leaf = tree.used(candidate.queue).milli
    if leaf <= tree.quota_milli(candidate.queue):
        return None  # what a project holds within its own quota is safe at every level
    return Victim(job=candidate.job, level=theirs, held_milli=held, quota_milli=quota)


def _without_needless(
    fitting: Fitting, chosen: list[tuple[Candidate, Victim]], gang: Gang
) -> Reclaim:
    """Spare everyone without whom the gang fits too: the most important and oldest first. The last
    one chosen made it fit, so it is needed.
    """
    kept = chosen[-1:]
    for pair in reversed(chosen[:-1]):
        fitting.scratch.take(pair[0].booking)
        if fitting.fit(gang) is None:
            fitting.scratch.give(pair[0].booking)
            kept.append(pair)
    booking = fitting.fit(gang)
    assert booking is not None  # it fitted before the loop, and after each step of it
    return Reclaim(victims=tuple(victim for _, victim in reversed(kept)), booking=booking)
