"""Quota's decisions: the tree's documents, who may compete, and the shares that people see.

Rule: a job that can be preempted competes at once; one that cannot waits for room within its
project's quota; a task of a group waits for its turn; who comes after others waits for their ends;
what no limit would ever let run is held until the tree changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from headrace.decider import Decider, Draft
from headrace.decider.fair_order import round_robin
from headrace.events.jobs import JobEligible, JobHeld
from headrace.quota.evolve import LISTENS_TO, evolve
from headrace.quota.part_rules import never_allowed
from headrace.quota.queue_rules import decide_queues
from headrace.quota.share_rules import decide_shares, shares_due, shares_moment
from headrace.quota.state import HELD_DELETED, HELD_GROUP, HELD_QUOTA, Entrant, Group, State
from headrace.scheduling.tree import Tree

JUDGED_MAX = 256  # jobs in one decision: an append holds a bounded number of events
HELD_TRIED_MAX = 64  # of one project's held jobs in one decision


class Hearing:
    """One turn's count of who was let in: on top of the state, which stays as it is."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.tree = Tree(state.queues, state.firm, state.total_milli)
        self.drafts: list[Draft] = []
        self._let_in: dict[str, int] = {}  # by group
        self._judged: set[str] = set()

    @property
    def full(self) -> bool:
        """Whether the rest is left for the next turn."""
        return len(self.drafts) >= JUDGED_MAX

    def slots(self, group_id: str) -> int:
        """How many more tasks of the group may compete (-1: all)."""
        group = self.state.groups.get(group_id)
        if group is None or not group.parallel:
            return -1
        return max(0, group.parallel - group.eligible - self._let_in.get(group_id, 0))

    def judge(self, job_id: str, entrant: Entrant) -> None:
        """Let the job in, or say why not; silent when it stays held for the same reason."""
        if job_id in self._judged:
            return
        reason = self._reason(entrant)
        if reason and reason == entrant.held and not self.state.is_fresh(job_id):
            return
        self._judged.add(job_id)
        project = entrant.project
        if reason:
            self._say(entrant, JobHeld(job=job_id, project=project, reason=reason))
            return
        if entrant.group:
            self._let_in[entrant.group] = self._let_in.get(entrant.group, 0) + 1
        if entrant.firm:
            self.tree.add(project, entrant.milli, firm=True)
        self._say(entrant, JobEligible(job=job_id, project=project))

    def _reason(self, entrant: Entrant) -> str:
        if entrant.after:
            first = next(iter(entrant.after.values()))
            more = f", and for {len(entrant.after) - 1} more" if len(entrant.after) > 1 else ""
            return f"waits for job {first.job} {first.in_words}{more}"
        if entrant.project in self.state.deleted:
            return HELD_DELETED
        if self.slots(entrant.group) == 0:
            return HELD_GROUP
        if reason := never_allowed(self.state.queues, entrant):
            return reason
        if not entrant.firm or entrant.project not in self.state.queues:
            return ""
        for name in self.tree.path(entrant.project):
            used = self.tree.used(name).firm_milli
            if used + entrant.milli > self.tree.quota_milli(name):
                return HELD_QUOTA
        return ""

    def _say(self, entrant: Entrant, event: JobEligible | JobHeld) -> None:
        draft = Draft(event=event, causation=entrant.admitted_at, traceparent=entrant.traceparent)
        self.drafts.append(draft)


def decide(state: State, now_us: int) -> list[Draft]:
    """What follows from this state at this time."""
    due = shares_due(state, now_us)
    if state.__dict__.get("idle") and not due:
        return []
    drafts = list(decide_queues(state))
    drafts += _decide_jobs(state)
    if due:
        drafts += decide_shares(state, now_us)
    state.__dict__["idle"] = not drafts
    return drafts


def wakeup(state: State) -> int | None:
    """When shares may be told again; at once when the last decision left something to decide."""
    if not state.__dict__.get("idle"):
        return 0
    return shares_moment(state)


def _decide_jobs(state: State) -> list[Draft]:
    hearing = Hearing(state)
    for job_id in _candidates(state, hearing):
        if hearing.full:
            break
        hearing.judge(job_id, state.jobs[job_id])
    return hearing.drafts


def _candidates(state: State, hearing: Hearing) -> Iterator[str]:
    """Those held for what may have changed, before those who have just arrived; of each project one
    after the other.
    """
    groups: dict[str, list[Iterator[str]]] = {}
    for group_id, group in state.groups.items():
        if group.waiting:
            groups.setdefault(group.project, []).append(_of_group(hearing, group_id, group))
    yield from round_robin({project: chain(*lines) for project, lines in groups.items()})
    yield from round_robin(
        {of: islice(waiting, HELD_TRIED_MAX) for of, waiting in state.firm_waiting.items()}
    )
    yield from round_robin(state.fresh)


def _of_group(hearing: Hearing, group_id: str, group: Group) -> Iterator[str]:
    for job_id in group.waiting:
        if hearing.slots(group_id) == 0:
            return
        yield job_id


DECIDER = Decider(
    service="quota",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=wakeup,
    listens_to=LISTENS_TO,
)
