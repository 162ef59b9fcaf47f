"""Placement's decisions: lives first, for they free devices; then room for those who wait.

Rule: a decision on a state in which nothing changed costs nothing but a look at the clock.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.decider import Decider, Draft
from headrace.placement.derived import index_of
from headrace.placement.evolve import LISTENS_TO, evolve
from headrace.placement.lease_rules import decide_leases
from headrace.placement.life_rules import decide_groups, decide_lives, overdue
from headrace.placement.node_rules import decide_changes
from headrace.placement.pause_rules import too_late
from headrace.placement.pool_rules import decide_pools
from headrace.placement.room_rules import decide_room
from headrace.placement.state import State

LIVES_MAX = 80  # jobs in one decision, each of at most three events


def decide(state: State, now_us: int) -> list[Draft]:
    """What follows from this state at this time. Changes nothing but what is remembered beside
    the state.
    """
    index = index_of(state)
    late = index.overdue(state, now_us)
    if index.idle and not late and not index.passed(state, now_us):
        return []
    drafts = list(decide_changes(state))
    drafts += decide_pools(state)
    drafts += decide_leases(state)
    drafts += decide_lives(state, LIVES_MAX)
    drafts += decide_groups(state, LIVES_MAX)
    late = [job_id for job_id in late if job_id not in state.due][:LIVES_MAX]
    drafts += (overdue(job_id, state.jobs[job_id], now_us) for job_id in late)
    slow = _slow_pauses(state, now_us, late)
    drafts += slow.values()
    drafts += decide_room(state, now_us, [*late, *slow])
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
    return index.wakeup(state) if index.idle else 0


DECIDER = Decider(
    service="placement",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=wakeup,
    listens_to=LISTENS_TO,
)
