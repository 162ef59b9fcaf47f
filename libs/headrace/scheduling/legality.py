"""Who may take back resources from whom.

Rule: what a queue holds within its quota is never taken. A victim's queue must hold more than it
may have (its fair share, or its quota if that is wider), or more than its quota when the taker
stays within its own; and whoever takes must not end up more saturated than those it took from.
Queues are compared where their paths first part. The semantics are those of KAI-Scheduler's
reclaimable plugin, with exact ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.scheduling.amounts import (
    NOTHING,
    RESOURCES,
    UNLIMITED,
    Amounts,
    at_least,
    at_most,
    minus,
    plus,
    within,
)


class PartStanding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a queue has of one part of the fleet and may have, in milli-GPUs."""

    quota: int
    share: int
    held: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue has (of it `firm`: held by work that cannot be preempted) and may have, in all
    and of each part of the fleet.
    """

    parent: str = ""
    quota: Amounts
    limit: Amounts
    share: Amounts  # its fair share
    held: Amounts = NOTHING
    firm: Amounts = NOTHING
    bounds_firm: bool = True
    parts: tuple[PartStanding, ...] = ()

    def takes_firm(self, request: Amounts) -> bool:
        """Whether that much more work that cannot be preempted stays within its quota."""
        return not self.bounds_firm or within(plus(self.firm, request), self.quota)

    @property
    def allocatable(self) -> Amounts:
        """What it may have at most while others want theirs."""
        gpu, cpu, memory = (
            at_most(self.limit[r], at_least(self.quota[r], self.share[r])) for r in RESOURCES
        )
        return (gpu, cpu, memory)


class Taker(msgspec.Struct, frozen=True, kw_only=True):
    """Whom resources are taken back for."""

    queue: str
    request: Amounts
    preemptible: bool = True


Chunks = Mapping[str, Sequence[Amounts]]  # by queue, what would be taken, piece by piece


def may_take(standings: Mapping[str, Standing], taker: Taker) -> bool:
    """Whether the taker's queue stays within its fair share (and, with work that cannot be
    preempted, within its quota).
    """
    queue = standings[taker.queue]
    if not within(plus(queue.held, taker.request), queue.share):
        return False
    return taker.preemptible or queue.takes_firm(taker.request)


def may_lose(standings: Mapping[str, Standing], taker: Taker, victim_queue: str) -> bool:
    """Whether anything of this queue could be taken, or moved, for the taker at all."""
    mine, theirs = leveled(standings, taker.queue, victim_queue)
    victim = standings[theirs]
    if not _stays_within_quota(standings[mine], taker):
        return not within(victim.held, victim.allocatable)
    below = False
    for resource in RESOURCES:
        if taker.request[resource] <= 0 or victim.quota[resource] == UNLIMITED:
            continue
        if victim.held[resource] > victim.quota[resource]:
            return True
        below = below or victim.held[resource] < victim.quota[resource]
    return not below


def is_legal(standings: Mapping[str, Standing], taker: Taker, chunks: Chunks) -> bool:
    """Whether these pieces may be taken, one after the other."""
    remaining: dict[str, Amounts] = {}
    involved: dict[str, set[int]] = {}
    for name, pieces in chunks.items():
        mine, theirs = leveled(standings, taker.queue, name)
        for piece in pieces:
            left = remaining.get(theirs, standings[theirs].held)
            if not _may_lose_more(standings[mine], standings[theirs], left, taker):
                return False
            touched = {r for r in RESOURCES if piece[r] > 0}
            for queue in path_up(standings, name):
                remaining[queue] = minus(remaining.get(queue, standings[queue].held), piece)
                involved.setdefault(queue, set()).update(touched)
    return _stays_fair(standings, taker, remaining, involved)


def leveled(standings: Mapping[str, Standing], one: str, other: str) -> tuple[str, str]:
    """The two queues at which the paths from the root first differ; the last of the shorter path
    where they do not.
    """
    mine = theirs = ""
    ours, yours = path_up(standings, one)[::-1], path_up(standings, other)[::-1]
    for mine, theirs in zip(ours, yours, strict=False):
        if mine != theirs:
            break
    return mine, theirs


def path_up(standings: Mapping[str, Standing], queue: str) -> list[str]:
    """The queue and everything above it, without repeats even if the tree had a cycle."""
    path: list[str] = []
    while queue in standings and queue not in path:
        path.append(queue)
        queue = standings[queue].parent
    return path


def _may_lose_more(mine: Standing, theirs: Standing, left: Amounts, taker: Taker) -> bool:
    if not within(left, theirs.allocatable):
        return True
    return _stays_within_quota(mine, taker) and not within(left, theirs.quota)


def _stays_within_quota(queue: Standing, taker: Taker) -> bool:
    return within(plus(queue.held, taker.request), queue.quota)


def _stays_fair(
    standings: Mapping[str, Standing],
    taker: Taker,
    remaining: Mapping[str, Amounts],
    involved: Mapping[str, set[int]],
) -> bool:
    """Whether, on the taker's whole path, no queue ends up more saturated than a sibling that lost
    something, and work that cannot be preempted stays within quota.
    """
    wanted = {r for r in RESOURCES if taker.request[r] > 0}
    for name in path_up(standings, taker.queue):
        queue = standings[name]
        after = plus(remaining.get(name, queue.held), taker.request)
        for other in sorted(remaining):
            sibling = standings[other]
            if sibling.parent != queue.parent or other == name:
                continue
            for resource in sorted(wanted | involved[other]):
                if _more_saturated(
                    (after[resource], queue.share[resource]),
                    (remaining[other][resource], sibling.share[resource]),
                ):
                    return False
        if not taker.preemptible and not queue.takes_firm(taker.request):
            return False
    return True


def _more_saturated(taker: tuple[int, int], sibling: tuple[int, int]) -> bool:
    """Whether the taker is above its share and not below the sibling, as (held, share) each."""
    held, share = taker
    if share == UNLIMITED or held <= share:
        return False
    left, theirs = sibling
    if theirs <= 0:
        return False
    return share == 0 or held * theirs >= left * share
