"""How placement's state follows the log, event by event.

Rule: total. Whatever names a job, an attempt or a node that is not (or no longer) there changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry
from headrace.events.access import ProjectErased, SecretSet
from headrace.events.accounts import AccountAssigned
from headrace.events.asked import Gang
from headrace.events.attempts import AttemptExited, AttemptExpired, AttemptStarted
from headrace.events.gangs import (
    GuardTripped,
    SearchSuspended,
)
from headrace.events.jobs import (
    JobAdmitted,
    JobCancelling,
    JobEligible,
    JobFinished,
    JobHeld,
    JobStarted,
)
from headrace.events.members import MemberAdmitted
from headrace.events.nodes import (
    DeviceFaulted,
    NodeAhead,
    NodeChanged,
    NodeChangeRefused,
    NodeChangeRequested,
    NodeFilled,
    NodeHeard,
    NodeHolds,
    NodeJoined,
    NodeSilent,
)
from headrace.events.performance import PerformanceMeasured
from headrace.events.platform import LogBegan, ServiceLed
from headrace.placement import (
    account_rules,
    evolve_gangs,
    evolve_groups,
    evolve_nodes,
    evolve_pauses,
    evolve_performance,
    evolve_queues,
    lineage_rules,
    pool_rules,
    port_rules,
    scheduling_rules,
    usage_rules,
)
from headrace.placement.derived import index_of, settle
from headrace.placement.runs import Exit, Run
from headrace.placement.state import Job, Lineage, State


def evolve(state: State, entry: Entry) -> None:
    """Fold one entry."""
    index_of(state).idle = False
    if not isinstance(entry.event, SearchSuspended):
        state.searching.rests_until_us = 0
        state.searching.stale = bool(state.searching.job)
    _ON[type(entry.event)](state, entry, entry.event)


def _led(state: State, entry: Entry, event: ServiceLed) -> None:
    if event.service == "placement":
        before, state.settings = state.settings, dict(event.settings)
        usage_rules.retimed(state, entry.recorded_at_us)
        if before != state.settings:
            index_of(state).resettled(state, entry.recorded_at_us)


def _admitted(state: State, entry: Entry, event: JobAdmitted) -> None:
    if event.tasks:
        evolve_groups.admitted(state, entry, event)
        return
    job = Job(
        project=event.project,
        user=event.user,
        gang=event.gang,
        requested_at=event.requested_at,
        admitted_at=entry.position,
        admitted_us=entry.recorded_at_us,
        priority=event.priority,
        preemptible=event.preemptible,
        protected_minimum=event.protected_minimum,
        max_duration_us=event.max_duration_us,
        replace_after_us=event.replace_after_us,
        checkpoint=event.checkpoint,
        retry=event.retry,
        group=event.group,
        index=event.index,
        traceparent=entry.header.traceparent,
    )
    state.jobs[event.job] = job
    lineage_rules.admitted(state, event.job, job)
    _arrived(state, job.gang)
    evolve_groups.task_admitted(state, event.job, job)
    settle(state, event.job, job)


def _arrived(state: State, gang: Gang) -> None:
    """Each worker counts in what is expected to come."""
    for part in (p for p in gang.by_role().values() for _ in range(p.nodes)):
        gpu_milli = part.accelerators[0].milli if part.accelerators else 0
        state.arrivals.add(gpu_milli, part.cpu_milli)
        if state.arrivals.tell:
            state.learned = state.arrivals.copy()


def _eligible(state: State, entry: Entry, event: JobEligible) -> None:
    job = state.jobs.get(event.job)
    if job is not None and not job.paused:  # that crossed with this, and quota sees it too
        job.eligible, job.held = True, ""
        settle(state, event.job, job)
        evolve_pauses.competes(state, entry, event)


def _held(state: State, _entry: Entry, event: JobHeld) -> None:
    job = state.jobs.get(event.job)
    if job is not None:
        job.eligible, job.held, job.room_by_us = False, event.reason, 0
        job.reserved = None
        settle(state, event.job, job)


def _cancelling(state: State, entry: Entry, event: JobCancelling) -> None:
    job = state.jobs.get(event.job)
    if job is not None:
        job.cancel_message = job.cancel_message or event.message
        job.cancelled_now = job.cancelled_now or event.now
        cancel(state, event.job, job, event.reason, entry.position)
    else:
        evolve_groups.cancelling(state, event)


def cancel(state: State, job_id: str, job: Job, reason: str, position: int) -> None:
    """The job is to end, for this reason, since this position."""
    if not job.cancelling:
        job.cancelling, job.cancelled_at, job.room_by_us = reason, position, 0
    settle(state, job_id, job)


def _started(state: State, entry: Entry, event: AttemptStarted) -> None:
    evolve_nodes.recorded(state, event.node, event.incarnation, event.report)
    job = state.jobs.get(event.job)
    run = job.run if job is not None else None
    if job is None or run is None or run.attempt != event.attempt:
        return
    if _is_there(run, event.rank, event.node) and event.rank not in run.started:
        run.started[event.rank] = entry.recorded_at_us
        run.cause = entry.position
        settle(state, event.job, job, moved=False)  # it counts from its job's start on


def _exited(state: State, entry: Entry, event: AttemptExited) -> None:
    evolve_nodes.recorded(state, event.node, event.incarnation, event.report)
    job = state.jobs.get(event.job)
    if job is None or job.run is None or job.run.attempt != event.attempt:
        return
    if not _is_there(job.run, event.rank, event.node):
        return
    end = Exit(
        reason=event.reason,
        exit_code=event.exit_code,
        message=event.message,
        at_us=entry.recorded_at_us,
        node_us=event.at_us,
        process=event.process,
    )
    if event.checkpoint:
        job.checkpoints[event.rank] = event.checkpoint
    port_rules.ended(state, job.run.worker(event.rank), event.reason)
    evolve_nodes.attempt_exited(state, event)
    exited(state, event.job, (event.rank, end), entry.position)


def _expired(state: State, entry: Entry, event: AttemptExpired) -> None:
    job = state.jobs.get(event.job)
    if job is None or job.run is None or job.run.attempt != event.attempt:
        return
    if _is_there(job.run, event.rank, event.node):
        silent_s = event.act.numbers.get("silent_us", 0) // 1_000_000
        message = f"{event.node} was not heard for {silent_s} s: its lease has ended"
        end = Exit(reason="lost", message=message, at_us=entry.recorded_at_us)
        exited(state, event.job, (event.rank, end), entry.position)


def _is_there(run: Run, rank: int, node: str) -> bool:
    """Whether the attempt has this worker on this node: nobody reports about another's."""
    worker = run.worker(rank)
    return worker is not None and worker.node == node


def exited(state: State, job_id: str, gone: tuple[int, Exit], position: int) -> None:
    """There is proof that this worker has gone."""
    job, (rank, end) = state.jobs[job_id], gone
    run = job.run
    if run is not None and rank not in run.exits:
        moved = not run.exits  # with the first of its workers all of it is on its way out
        run.exits[rank] = end
        run.cause = position
        settle(state, job_id, job, moved=moved)


def _begun(state: State, entry: Entry, event: JobStarted) -> None:
    job = state.jobs.get(event.job)
    if job is not None and job.run is not None and job.run.attempt == event.attempt:
        job.run.begun_us = max(job.run.started.values(), default=entry.recorded_at_us)
        if job.waited_us < 0:
            job.waited_us = event.waited_us
        settle(state, event.job, job)
        evolve_groups.task_begun(state, entry, event, job)


def _finished(state: State, entry: Entry, event: JobFinished) -> None:
    job = state.jobs.pop(event.job, None)
    if job is None:
        state.groups.pop(event.job, None)
        state.groups_due.pop(event.job, None)
        return
    state.due.pop(event.job, None)
    state.resting.pop(event.job, None)
    index_of(state).drop(event.job)
    for task in evolve_groups.task_finished(state, entry, event, job):
        live = state.jobs.get(task)
        if live is not None:
            cancel(state, task, live, "stop-after-failures", entry.position)


def _assigned(state: State, entry: Entry, event: AccountAssigned) -> None:
    account_rules.assigned(state, entry, event)
    index = index_of(state)
    if account_rules.is_full(state, event.project):  # others who wait may lack one from now on
        index.changed_jobs.update(index.waiting)


def _began_line(state: State, entry: Entry, event: LogBegan) -> None:
    state.lineage = Lineage(name=event.lineage, epoch=event.epoch, began_at=entry.position)
    if event.how == "restored":
        lineage_rules.restored(state, entry.position)
    elif event.how == "forked":
        for job_id, job in state.jobs.items():
            cancel(state, job_id, job, lineage_rules.FORKED, entry.position)
        for group_id in list(state.groups):
            evolve_groups.cancelling(
                state,
                JobCancelling(
                    job=group_id,
                    project=state.groups[group_id].project,
                    reason=lineage_rules.FORKED,
                ),
            )
        for job_id, rank, end in evolve_nodes.left(state, entry):
            exited(state, job_id, (rank, end), entry.position)


def _secret(state: State, _entry: Entry, event: SecretSet) -> None:
    state.secrets.setdefault(event.project, {})[event.name] = event.version


def _erased(state: State, _entry: Entry, event: ProjectErased) -> None:
    state.secrets.pop(event.project, None)


def _on_nodes(change: Callable[..., list[tuple[str, int, Exit]]]) -> Callable[..., None]:
    """A change of a node that may be proof that workers there have gone."""

    def evolve_node(state: State, entry: Entry, event: Any) -> None:
        for job_id, rank, end in change(state, entry, event):
            exited(state, job_id, (rank, end), entry.position)

    return evolve_node


_ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    ServiceLed: _led,
    LogBegan: _began_line,
    NodeHolds: evolve_nodes.holds,
    NodeAhead: evolve_nodes.ahead,
    AccountAssigned: _assigned,
    SecretSet: _secret,
    ProjectErased: _erased,
    JobAdmitted: _admitted,
    JobEligible: _eligible,
    JobHeld: _held,
    JobCancelling: _cancelling,
    JobStarted: _begun,
    JobFinished: _finished,
    GuardTripped: evolve_nodes.tripped,
    AttemptStarted: _started,
    AttemptExited: _exited,
    AttemptExpired: _expired,
    NodeJoined: _on_nodes(evolve_nodes.joined),
    NodeSilent: _on_nodes(evolve_nodes.silent),
    NodeFilled: evolve_nodes.filled,
    NodeHeard: _on_nodes(evolve_nodes.heard),
    NodeChangeRequested: evolve_nodes.change_requested,
    NodeChanged: _on_nodes(evolve_nodes.changed),
    NodeChangeRefused: evolve_nodes.change_refused,
    DeviceFaulted: evolve_nodes.faulted,
    MemberAdmitted: evolve_nodes.admitted,
    PerformanceMeasured: evolve_performance.measured,
    **evolve_gangs.ON,
    **evolve_queues.ON,
    **pool_rules.ON,
    **scheduling_rules.ON,
    **evolve_pauses.ON,
}

LISTENS_TO = tuple(_ON)
