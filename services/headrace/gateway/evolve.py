"""How the projection follows the log.

Rule: `evolve` is total and pure: whatever the log says is folded, in the order of the log, and the
same log gives the same projection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.client.model import why_ended
from headrace.events import Entry, Event
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
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.events.platform import ServiceLed, UsageAccounted
from headrace.events.queues import QueueConfigured, SharesDivided
from headrace.gateway.projection import ENDED_JOBS_MAX, Job, Node, Projection, ProjectUse


def evolve(projection: Projection, entry: Entry) -> None:
    """Fold one entry."""
    projection.position, projection.at_us = entry.position, entry.recorded_at_us
    fold = _FOLDS.get(type(entry.event))
    if fold is not None:
        fold(projection, entry, entry.event)


def _requested(projection: Projection, entry: Entry, event: JobRequested) -> None:
    _add(projection, entry, event, kind_of_group=event.kind_of_group, tasks=len(event.trials))


def _admitted(projection: Projection, entry: Entry, event: JobAdmitted) -> None:
    job = projection.live.get(event.job)
    if job is None:
        job = _add(projection, entry, event, group=event.group, index=event.index)
        group = projection.live.get(event.group)
        if group is not None:
            group.task_ids.append(event.job)
            job.requested_at_us = job.waiting_since_us = group.requested_at_us
    job.tasks, job.tasks_parallel = event.tasks, event.tasks_parallel
    job.warning = event.warning
    _move(projection, job, "waiting")


def _refused(projection: Projection, entry: Entry, event: JobRefused) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.why = str(event.refusal).removeprefix("refused: ")
        _end(projection, entry, job, "refused")


def _eligible(projection: Projection, _: Entry, event: JobEligible) -> None:
    job = projection.live.get(event.job)
    if job is not None and job.state in ("submitted", "held"):
        job.why = ""
        _move(projection, job, "waiting")


def _held(projection: Projection, _: Entry, event: JobHeld) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.why = event.reason
        if job.state in ("submitted", "waiting"):
            _move(projection, job, "held")


def _placed(projection: Projection, _: Entry, event: GangPlaced | GangResumed) -> None:
    for worker in event.workers:
        for share in worker.devices:
            holders = projection.held.setdefault(share.device, {})
            holders[event.job] = holders.get(event.job, 0) + share.milli
    _use(projection, event.project).held_milli += event.milli
    job = projection.live.get(event.job)
    if job is not None:
        job.attempt, job.workers, job.held_milli = event.attempt, event.workers, event.milli
        job.why = ""
        _move(projection, job, "running" if isinstance(event, GangResumed) else "starting")


def _to_pause(projection: Projection, _: Entry, event: JobPausing) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.why = f"is to pause, for {event.user}" if event.user else "is to pause"


def _leaving(projection: Projection, _: Entry, event: GangPausing) -> None:
    job = projection.live.get(event.job)
    if job is not None and event.phase == "locked":
        job.evictions += bool(event.gainer)
        job.why = f"{event.reason} for {event.gainer}" if event.gainer else "leaves its GPUs"
        _move(projection, job, "stopping")


def _left(projection: Projection, entry: Entry, event: GangPaused) -> None:
    _give_back(projection, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.held_milli = 0
        job.gpu_us += event.milli * event.held_us // 1000
        job.waiting_since_us = entry.recorded_at_us
        job.why = f"paused by {event.way}, in the memory of its nodes"
        _move(projection, job, "waiting")


def _paused(projection: Projection, _: Entry, event: JobPaused) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        lost = f"; lost: {event.lost}" if event.lost else ""
        job.why = f"paused by {event.way}{lost}" if event.way != "waiting" else "paused"
        _move(projection, job, "paused")


def _resuming(projection: Projection, entry: Entry, event: JobResuming) -> None:
    job = projection.live.get(event.job)
    if job is not None and job.state == "paused":
        job.waiting_since_us = entry.recorded_at_us
        job.why = "is resumed"
        _move(projection, job, "waiting")


def _started(projection: Projection, entry: Entry, event: JobStarted) -> None:
    job = projection.live.get(event.job)
    if job is None:
        return
    now_us = entry.recorded_at_us
    if job.waited_us < 0:
        job.waited_us = event.waited_us
    else:
        job.waited_us += now_us - job.waiting_since_us
    job.started_at_us = now_us
    group = projection.live.get(job.group)
    if group is not None and not group.started_at_us:
        group.started_at_us, group.waited_us = now_us, event.waited_us
    if job.state == "starting":
        _move(projection, job, "running")


def _cancelling(projection: Projection, _: Entry, event: JobCancelling) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.why = event.reason if not event.user else f"{event.reason} by {event.user}"
        _move(projection, job, "stopping")


def _evicted(projection: Projection, _: Entry, event: GangEvicted) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.evictions += bool(event.gainer)
        if event.reason != "cancelled":  # who cancelled it is known already
            job.why = f"{event.reason} for {event.gainer}" if event.gainer else event.reason
        _move(projection, job, "stopping")


def _released(projection: Projection, entry: Entry, event: GangReleased) -> None:
    _give_back(projection, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.held_milli = 0
        job.gpu_us = job.gpu_us_before + event.milli * event.held_us // 1000
        job.gpu_us_before = job.gpu_us
        if event.again:
            job.waiting_since_us = entry.recorded_at_us
            job.started_at_us = 0
            _move(projection, job, "waiting")


def _give_back(projection: Projection, event: GangReleased | GangPaused) -> None:
    for share in event.shares:
        holders = projection.held.get(share.device, {})
        holders.pop(event.job, None)
        if not holders:
            projection.held.pop(share.device, None)
    _use(projection, event.project).held_milli -= sum(share.milli for share in event.shares)


def _finished(projection: Projection, entry: Entry, event: JobFinished) -> None:
    job = projection.live.get(event.job)
    if job is None:
        return
    job.exit_code = None if event.outcome == "cancelled" and not event.attempt else event.exit_code
    job.ran_us = event.ran_us
    if job.waited_us < 0:
        job.waited_us = event.waited_us or max(0, entry.recorded_at_us - job.requested_at_us)
    why = why_ended(event.reason, event.message)
    job.why = why if why or event.outcome != "cancelled" else job.why
    _end(projection, entry, job, event.outcome)


def _joined(projection: Projection, _: Entry, event: NodeJoined) -> None:
    before = projection.nodes.get(event.node)
    change = before.change if before is not None else ""
    projection.nodes[event.node] = Node(joined=event, change=change)


def _silent(projection: Projection, entry: Entry, event: NodeSilent) -> None:
    node = projection.nodes.get(event.node)
    if node is not None:
        node.silent_since_us = entry.recorded_at_us - event.silent_us


def _heard(projection: Projection, _: Entry, event: NodeHeard) -> None:
    node = projection.nodes.get(event.node)
    if node is not None:
        node.silent_since_us = 0


def _changed(projection: Projection, _: Entry, event: NodeChanged) -> None:
    node = projection.nodes.get(event.node)
    if node is not None:
        node.change = "" if event.change == "uncordon" else event.change


def _configured(projection: Projection, _: Entry, event: QueueConfigured) -> None:
    projection.queues[event.name] = event.queue


def _divided(projection: Projection, _: Entry, event: SharesDivided) -> None:
    projection.shares = event.shares


def _accounted(projection: Projection, _: Entry, event: UsageAccounted) -> None:
    _use(projection, event.project).gpu_us += event.milli * event.held_us // 1000


def _led(projection: Projection, _: Entry, event: ServiceLed) -> None:
    projection.services[event.service] = event.epoch


_FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {
    JobRequested: _requested,
    JobAdmitted: _admitted,
    JobRefused: _refused,
    JobEligible: _eligible,
    JobHeld: _held,
    JobCancelling: _cancelling,
    JobStarted: _started,
    JobFinished: _finished,
    GangPlaced: _placed,
    GangEvicted: _evicted,
    GangReleased: _released,
    JobPausing: _to_pause,
    JobPaused: _paused,
    JobResuming: _resuming,
    GangPausing: _leaving,
    GangPaused: _left,
    GangResumed: _placed,
    NodeJoined: _joined,
    NodeSilent: _silent,
    NodeHeard: _heard,
    NodeChanged: _changed,
    QueueConfigured: _configured,
    SharesDivided: _divided,
    UsageAccounted: _accounted,
    ServiceLed: _led,
}


def _add(
    projection: Projection, entry: Entry, event: JobRequested | JobAdmitted, **known: Any
) -> Job:
    job = Job(
        job=event.job,
        project=event.project,
        name=event.name,
        user=event.user,
        gang=event.gang,
        position=entry.position,
        requested_at_us=entry.recorded_at_us,
        waiting_since_us=entry.recorded_at_us,
        **known,
    )
    projection.live[event.job] = job
    return job


def _move(projection: Projection, job: Job, state: str) -> None:
    """Change a job's state, and what its group counts."""
    group = projection.live.get(job.group)
    if group is not None:
        states = group.task_states
        if states.get(job.state):
            states[job.state] -= 1
        states[state] = states.get(state, 0) + 1
    job.state = state


def _end(projection: Projection, entry: Entry, job: Job, state: str) -> None:
    job.ended_at_us = entry.recorded_at_us
    _move(projection, job, state)
    projection.live.pop(job.job, None)
    projection.ended[job.job] = job
    if len(projection.ended) > ENDED_JOBS_MAX:
        del projection.ended[next(iter(projection.ended))]


def _use(projection: Projection, project: str) -> ProjectUse:
    use = projection.use.get(project)
    if use is None:
        use = projection.use[project] = ProjectUse()
    return use


LISTENS_TO = tuple(_FOLDS)
