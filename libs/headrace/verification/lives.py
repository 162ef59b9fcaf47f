"""I2, I3, I4 and I7: what may happen to a job, in which order, and on what proof.

Rule: a decision is judged by what its own basis held. What another service appended after it is a
race that both may lose, and no violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.events import Entry
from headrace.events.attempts import AttemptExited, AttemptExpired, AttemptStarted
from headrace.events.gangs import GangEvicted, GangPlaced, GangReleased
from headrace.events.jobs import (
    JobAdmitted,
    JobCancelling,
    JobEligible,
    JobFinished,
    JobHeld,
    JobRefused,
    JobRequested,
    JobStarted,
)
from headrace.events.nodes import NodeChanged, NodeHeard, NodeJoined, NodeSilent
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
)
from headrace.events.platform import UsageAccounted
from headrace.verification.life import NEVER, Grant, Life

STALENESS_US = 60_000_000  # a gang may be short of a worker for so long before placement acts
SILENCES_MAX = 8  # changes of one node's silence between a decision's basis and its append

Found = tuple[str, str]  # invariant, what
Report = (
    AttemptStarted
    | AttemptExited
    | AttemptLocked
    | AttemptPaused
    | AttemptResumed
    | AttemptPauseFailed
)
Silences = tuple[tuple[int, int], ...]  # by position: for how long a node has been silent, in us


class Lives:
    """Every job of the log, and what runs."""

    def __init__(self) -> None:
        self._jobs: dict[str, Life] = {}
        self._on_node: dict[str, dict[tuple[str, int], None]] = {}  # what is granted there
        self._boots: dict[str, str] = {}
        self._silences: dict[str, Silences] = {}
        self._reports: dict[tuple[str, str], int] = {}
        self._short: dict[str, None] = {}  # jobs of which a worker has gone and others have not

    def is_firm(self, job: str) -> bool:
        """Whether the job was admitted as one that cannot be preempted."""
        life = self._jobs.get(job)
        return life is not None and not life.preemptible

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
        life.nodes, life.preemptible = event.gang.nodes, event.preemptible
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
        life.stand(entry.position, eligible=isinstance(event, JobEligible))

    def placed(self, entry: Entry, event: GangPlaced) -> Iterator[Found]:
        life, job, basis = self.known(event.job), event.job, entry.header.basis
        yield from self._alive(entry, job, life)
        if life.grant is not None:
            yield "I2", f"{job} attempt {event.attempt} placed beside {life.grant.attempt}"
        if event.attempt != life.attempt + 1:
            yield "I3", f"{job} attempt {event.attempt} follows attempt {life.attempt}"
        if not life.was_eligible(basis):
            yield "I4", f"{job} is placed while it may not compete"
        if life.cancelling <= basis:
            yield "I4", f"{job} is placed although it is to end"
        if [worker.rank for worker in event.workers] != list(range(life.nodes)):
            yield "I7", f"{job} needs {life.nodes} workers and got {len(event.workers)}"
        life.attempt = event.attempt
        nodes = tuple(worker.node for worker in event.workers)
        life.grant = Grant(attempt=event.attempt, nodes=nodes, milli=event.milli)
        for worker in event.workers:
            self._on_node.setdefault(worker.node, {})[job, worker.rank] = None

    def begun(self, entry: Entry, event: JobStarted) -> Iterator[Found]:
        grant = self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} begins and is not placed"
        elif len(grant.started) != len(grant.nodes):
            yield "I4", f"{event.job} begins before all of its workers started"
        elif grant.begun != NEVER:
            yield "I4", f"{event.job} attempt {event.attempt} begins again"
        else:
            grant.begun = entry.position

    def evicted(self, entry: Entry, event: GangEvicted) -> Iterator[Found]:
        grant = self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} is evicted and not placed"
        elif grant.evicted != NEVER:
            yield "I4", f"{event.job} attempt {event.attempt} is evicted again"
        else:
            grant.evicted = entry.position
            self._short.pop(event.job, None)

    def released(self, entry: Entry, event: GangReleased) -> Iterator[Found]:
        life, grant = self.known(event.job), self._grant(event.job, event.attempt)
        if grant is None:
            yield "I3", f"{event.job} attempt {event.attempt} is released and not placed"
            return
        alive = [rank for rank in range(len(grant.nodes)) if rank not in grant.gone]
        early = [rank for rank, gone in grant.gone.items() if gone > entry.header.basis]
        if alive or early:
            yield "I4", f"{event.job} is released before there is proof that {alive + early} ended"
        for rank, node in enumerate(grant.nodes):
            self._on_node[node].pop((event.job, rank), None)
        life.grant = None
        life.unpaid[event.attempt] = (event.milli, event.held_us)
        self._short.pop(event.job, None)

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

    def accounted(self, entry: Entry, event: UsageAccounted) -> Iterator[Found]:
        del entry
        life = self.known(event.job)
        if life.unpaid.pop(event.attempt, None) != (event.milli, event.held_us):
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
        if not 0 <= event.rank < len(grant.nodes) or grant.nodes[event.rank] != event.node:
            yield "I3", f"{event.job} rank {event.rank} reported by {event.node}"
        elif isinstance(event, AttemptExited):
            self._gone(entry, event.job, grant, event.rank)
            if event.reason == "exited" and event.exit_code == 0 and grant.short_us == NEVER:
                self._short.pop(event.job, None)
            elif grant.short_us == NEVER and grant.evicted == NEVER:
                grant.short, grant.short_us = entry.position, entry.recorded_at_us
                self._short[event.job] = None
        else:
            grant.started[event.rank] = entry.position

    def expired(self, entry: Entry, event: AttemptExpired) -> Iterator[Found]:
        life, grant = self.known(event.job), self._grant(event.job, event.attempt)
        if grant is None or grant.nodes[event.rank : event.rank + 1] != (event.node,):
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
        if event.change == "fence":
            self._all_gone(entry, event.node)
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

    def live(self) -> dict[str, Any]:
        """Jobs that have not ended, for reports on liveness: id to `Life`."""
        return {job: life for job, life in self._jobs.items() if life.finished == NEVER}

    def known(self, job: str) -> Life:
        """The job's record; an empty one when nobody asked for it, which the checks then tell."""
        return self._jobs.get(job) or Life(requested=NEVER)

    def _grant(self, job: str, attempt: int) -> Grant | None:
        grant = self.known(job).grant
        return grant if grant is not None and grant.attempt == attempt else None

    def _alive(self, entry: Entry, job: str, life: Life) -> Iterator[Found]:
        if life.admitted == NEVER:
            yield "I4", f"{job} was never admitted"
        if life.finished <= entry.header.basis:
            yield "I4", f"{job} ended at position {life.finished}"

    def _all_gone(self, entry: Entry, node: str) -> None:
        for job, rank in self._on_node.get(node, {}):
            grant = self.known(job).grant
            if grant is not None:
                self._gone(entry, job, grant, rank)

    def _gone(self, entry: Entry, job: str, grant: Grant, rank: int) -> None:
        del job
        grant.gone.setdefault(rank, entry.position)
