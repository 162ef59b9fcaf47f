"""I2, I3, I4 and I7: what may happen to a job, in which order, and on what proof.

Rule: a decision is judged by what its own basis held. What another service appended after it is a
race that both may lose, and no violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.events import Entry
from headrace.events.attempts import AttemptExited, AttemptExpired, AttemptStarted
from headrace.events.jobs import (
    JobAdmitted,
    JobCancelling,
    JobEligible,
    JobFinished,
    JobHeld,
    JobRefused,
    JobRequested,
    JobRetries,
    JobStarted,
)
from headrace.events.nodes import NodeChanged, NodeHeard, NodeJoined, NodeSilent
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
)
from headrace.events.platform import FORKED, LogBegan, UsageAccounted
from headrace.verification.grants import Found, Grants
from headrace.verification.life import NEVER, Grant, Life

STALENESS_US = 60_000_000  # a gang may be short of a worker for so long before placement acts
SILENCES_MAX = 8  # changes of one node's silence between a decision's basis and its append

Report = (
    AttemptStarted
    | AttemptExited
    | AttemptLocked
    | AttemptPaused
    | AttemptResumed
    | AttemptPauseFailed
)
Silences = tuple[tuple[int, int], ...]  # by position: for how long a node has been silent, in us


class Lives(Grants):
    """Every job of the log, and what runs."""

    def __init__(self) -> None:
        super().__init__()
        self._boots: dict[str, str] = {}
        self._silences: dict[str, Silences] = {}
        self._reports: dict[tuple[str, str], int] = {}

    def requested(self, entry: Entry, event: JobRequested) -> Iterator[Found]:
        if event.job in self._jobs:
            yield "I4", f"{event.job} is requested again"
        self._jobs[event.job] = Life(requested=entry.position, preemptible=event.preemptible)

    def admitted(self, entry: Entry, event: JobAdmitted) -> Iterator[Found]:
        life = self._jobs.get(event.job)
        group = self._jobs.get(event.group) if event.group else None
        if life is None and group is not None and group.tasks and event.index >= 0:
            group.open_tasks += 1
            life = self._jobs[event.job] = Life(requested=group.requested, group=event.group)
        if life is None or life.admitted != NEVER or life.finished != NEVER:
            yield "I4", f"{event.job} is admitted without being asked for, or again"
            return
        if entry.header.basis < life.requested:
            yield "I4", f"{event.job} is admitted before its request was read"
        life.admitted, life.tasks = entry.position, event.tasks
        life.gang, life.preemptible = event.gang, event.preemptible
        life.protected = event.protected_minimum
        life.replace_after_us = event.replace_after_us

    def refused(self, entry: Entry, event: JobRefused) -> Iterator[Found]:
        life = self._jobs.get(event.job)
        if life is None or life.admitted != NEVER or life.finished != NEVER:
            yield "I4", f"{event.job} is refused without waiting for an answer"
        else:
            life.finished = entry.position

    def cancelling(self, entry: Entry, event: JobCancelling) -> Iterator[Found]:
        life = self.known(event.job)
        yield from self._alive(entry, event.job, life)
        life.cancelling = min(life.cancelling, entry.position)

    def standing(self, entry: Entry, event: JobEligible | JobHeld) -> Iterator[Found]:
        life = self.known(event.job)
        yield from self._alive(entry, event.job, life)
        if not life.paused:  # who is paused competes for nothing until that is over
            life.stand(entry.position, eligible=isinstance(event, JobEligible))

    def begun(self, entry: Entry, event: JobStarted) -> Iterator[Found]:
        grant = self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} begins and is not placed"
        elif grant.nodes.keys() - grant.started.keys():
            yield "I4", f"{event.job} begins before all of its workers started"
        elif grant.begun != NEVER:
            yield "I4", f"{event.job} attempt {event.attempt} begins again"
        else:
            grant.begun = entry.position

    def finished(self, entry: Entry, event: JobFinished) -> Iterator[Found]:
        life = self.known(event.job)
        if life.finished != NEVER:
            yield "I4", f"{event.job} ends again"
        if life.admitted == NEVER:
            yield "I4", f"{event.job} ends without having been admitted"
        if life.grant is not None:
            yield "I4", f"{event.job} ends while attempt {life.grant.attempt} holds its devices"
        if life.open_tasks:
            yield "I4", f"{event.job} ends while {life.open_tasks} of its tasks have not"
        if event.outcome == "succeeded" and not life.tasks and not event.attempt:
            yield "I4", f"{event.job} succeeds without having run"
        life.finished = min(life.finished, entry.position)
        group = self._jobs.get(life.group)
        if group is not None:
            group.open_tasks -= 1

    def retries(self, entry: Entry, event: JobRetries) -> Iterator[Found]:
        life = self.known(event.job)
        yield from self._alive(entry, event.job, life)
        if not life.rests:
            yield "I4", f"{event.job} retries and has not rested"
        life.rests = False

    def accounted(self, entry: Entry, event: UsageAccounted) -> Iterator[Found]:
        del entry
        life = self.known(event.job)
        paid = (event.attempt, event.milli, event.held_us)
        if paid in life.unpaid:
            life.unpaid.remove(paid)
        else:
            yield "I4", f"{event.job} attempt {event.attempt} is not accounted as it was released"

    def numbered(self, event: Report) -> Iterator[Found]:
        """A report of a node's journal comes once, in order."""
        journal = (event.node, event.incarnation)
        if event.report <= self._reports.get(journal, 0):
            yield "I3", f"report {event.report} of {event.node} is recorded again"
        self._reports[journal] = event.report

    def reported(self, entry: Entry, event: AttemptStarted | AttemptExited) -> Iterator[Found]:
        yield from self.numbered(event)
        life = self.known(event.job)
        grant = self._grant(event.job, event.attempt)
        if grant is None:
            if event.attempt > life.attempt:
                yield "I3", f"{event.job} attempt {event.attempt} runs and was never placed"
            return
        if event.rank in range(grant.ranks) and event.rank not in grant.nodes:
            return  # it was released when its machine had gone
        if grant.nodes.get(event.rank) != event.node:
            yield "I3", f"{event.job} rank {event.rank} reported by {event.node}"
        elif isinstance(event, AttemptExited):
            if event.reason == "exited" and not event.exit_code and event.rank not in grant.gone:
                grant.done[event.rank] = entry.position
            self._gone(entry, event.job, grant, event.rank)
            self._misses(entry, life, grant, event)
        else:
            grant.started[event.rank] = entry.position

    def expired(self, entry: Entry, event: AttemptExpired) -> Iterator[Found]:
        life, grant = self.known(event.job), self._grant(event.job, event.attempt)
        if grant is None or grant.nodes.get(event.rank) != event.node:
            yield "I3", f"{event.job} rank {event.rank} expires on {event.node} and is not there"
            return
        known = self._silences.get(event.node, ())
        silent_us = next((us for at, us in reversed(known) if at <= entry.header.basis), 0)
        if not 0 < life.replace_after_us <= silent_us:
            yield "I2", f"{event.job} expires on {event.node}, silent for {silent_us} us"
        self._gone(entry, event.job, grant, event.rank)

    def hearing(self, entry: Entry, event: NodeSilent | NodeHeard | NodeJoined) -> Iterator[Found]:
        silent_us = event.silent_us if isinstance(event, NodeSilent) else 0
        known = self._silences.get(event.node, ())[1 - SILENCES_MAX :]
        self._silences[event.node] = (*known, (entry.position, silent_us))
        return iter(())

    def joined(self, entry: Entry, event: NodeJoined) -> Iterator[Found]:
        if self._boots.get(event.node, event.boot) != event.boot:
            self._all_gone(entry, event.node)
        self._boots[event.node] = event.boot
        return self.hearing(entry, event)

    def changed(self, entry: Entry, event: NodeChanged) -> Iterator[Found]:
        if event.change in ("fence", "forget"):
            self._all_gone(entry, event.node)
        return iter(())

    def began(self, entry: Entry, event: LogBegan) -> Iterator[Found]:
        """All nodes belong to the log before the fork: what runs there is not this log's any more."""
        for node in list(self._on_node) if event.how == FORKED else ():
            self._all_gone(entry, node)
        return iter(())

    def stale(self, entry: Entry) -> Iterator[Found]:
        """Gangs short of a worker that placement knew of, for too long, when it decided this."""
        header = entry.header
        for job in list(self._short):
            grant = self.known(job).grant
            if grant is None or grant.evicted != NEVER or len(grant.gone) == len(grant.nodes):
                del self._short[job]
            elif header.basis >= grant.short and header.decided_at_us > (
                grant.short_us + STALENESS_US
            ):
                del self._short[job]
                yield "I7", f"{job} is short of a worker since position {grant.short}"

    def _misses(self, entry: Entry, life: Life, grant: Grant, event: AttemptExited) -> None:
        """Whether the gang is short of that worker from now on."""
        if event.reason == "exited" and event.exit_code == 0:
            if grant.short_us == NEVER:
                self._short.pop(event.job, None)
            return
        missed = event.rank not in grant.leaving and not _is_enough(life, grant)
        if missed and grant.short_us == NEVER and grant.evicted == NEVER:
            grant.short, grant.short_us = entry.position, entry.recorded_at_us
            self._short[event.job] = None

    def live(self) -> dict[str, Any]:
        """Jobs that have not ended, for reports on liveness: id to `Life`."""
        return {job: life for job, life in self._jobs.items() if life.finished == NEVER}

    def _all_gone(self, entry: Entry, node: str) -> None:
        for job, rank in self._on_node.get(node, {}):
            grant = self.known(job).grant
            if grant is not None:
                self._gone(entry, job, grant, rank)

    def _gone(self, entry: Entry, job: str, grant: Grant, rank: int) -> None:
        del job
        grant.gone.setdefault(rank, entry.position)


def _is_enough(life: Life, grant: Grant) -> bool:
    """Whether an elastic gang has its minimum without those that have gone or are to."""
    left = grant.nodes.keys() - grant.gone.keys() - grant.leaving.keys()
    is_elastic = life.nodes_max > life.gang.nodes
    return is_elastic and 0 in left and life.gang.has_minimum(grant.roles[rank] for rank in left)
