"""Placement's decisions: lives first, for they free devices; then room for those who wait.

Rule: a decision on a state in which nothing changed costs nothing but a look at the clock.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.decider import Decider, Draft
from headrace.placement.derived import index_of
from headrace.placement.evolve import LISTENS_TO, evolve
from headrace.placement.following import usage_counts, usage_moves_us
from headrace.placement.lease_rules import decide_leases
from headrace.placement.life_rules import decide_groups, decide_lives
from headrace.placement.node_rules import decide_changes, decide_drains
from headrace.placement.pause_rules import too_late
from headrace.placement.pool_rules import decide_pools
from headrace.placement.retry_rules import decide_rests
from headrace.placement.room_rules import decide_room
from headrace.placement.scheduling_rules import decide_scheduling
from headrace.placement.state import State

LIVES_MAX = 80  # groups that end in one decision, jobs that rest or are moved
EVENTS_MAX = 240  # of jobs' lives in one decision, but for those of the last


def decide(state: State, now_us: int) -> list[Draft]:
    """What follows from this state at this time. Changes nothing but what is remembered beside
    the state.
    """
    index = index_of(state)
    if index.passed(state, now_us):
        index.idle = index.quiet = False
    if index.idle and not usage_counts(state, now_us):
        return []
    drafts = [*decide_changes(state), *decide_scheduling(state)]
    if drafts:  # in force before anything else is decided
        return drafts
    drafts += decide_pools(state)
    drafts += decide_leases(state)
    drafts += decide_lives(state, EVENTS_MAX)
    drafts += decide_groups(state, LIVES_MAX)
    drafts += decide_rests(state, now_us, LIVES_MAX)
    drained = decide_drains(state, now_us, LIVES_MAX)
    drafts += drained.values()
    slow = _slow_pauses(state, now_us, drained)
    drafts += slow.values()
    drafts += decide_room(state, now_us, [*drained, *slow])
    index.idle = not drafts
    return drafts


def _slow_pauses(state: State, now_us: int, late: Collection[str]) -> dict[str, Draft]:
    """Who takes too long to leave its devices, or has waited too long for them, by job."""
    pausing = (job_id for job_id in sorted(index_of(state).pausing) if job_id not in state.due)
    found = ((job_id, too_late(state, job_id, now_us)) for job_id in pausing if job_id not in late)
    return {job_id: draft for job_id, draft in found if draft is not None}


def wakeup(state: State) -> int | None:
    """The next moment at which time alone leads to a decision; at once when the last decision left
    something to decide, for what it released can now be placed.
    """
    index = index_of(state)
    if not index.idle:
        return 0
    known = (index.wakeup(state), usage_moves_us(state))
    return min((moment for moment in known if moment is not None), default=None)


DECIDER = Decider(
    service="placement",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=wakeup,
    listens_to=LISTENS_TO,
)
