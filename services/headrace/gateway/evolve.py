"""How the projection follows the log.

Rule: `evolve` is total and pure: whatever the log says is folded, in the order of the log, and the
same log gives the same projection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.access import directory
from headrace.client.model import NODE_LOST, why_ended
from headrace.events import Entry, Event, stream_of, tag_of
from headrace.events.attempts import AttemptExited
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    WorkersReleased,
)
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
from headrace.events.nodes import (
    DeviceFaulted,
    NodeAhead,
    NodeChanged,
    NodeHeard,
    NodeHolds,
    NodeJoined,
    NodeSilent,
    ahead_text,
    not_heard_text,
    still_faulted,
)
from headrace.events.platform import LogBegan, ServiceLed, UsageAccounted
from headrace.events.pools import PoolConfigured, PoolDeleted
from headrace.events.queues import QueueConfigured, QueueDeleted, SharesDivided
from headrace.events.scheduling import SchedulingConfigured, SchedulingDeleted
from headrace.events.templates import TemplateConfigured, TemplateDeleted
from headrace.events.volumes import VolumeConfigured, VolumeDeleted
from headrace.events.webhooks import WebhookConfigured, WebhookDeleted
from headrace.gateway import (
    evolve_gangs,
    evolve_inventory,
    evolve_joining,
    evolve_pauses,
    evolve_sweeps,
    evolve_webhooks,
    evolve_workspaces,
)
from headrace.gateway.projection import (
    ENDED_JOBS_MAX,
    DeviceAt,
    Job,
    Node,
    Projection,
    move,
    use_of,
)

CONFIGURED: tuple[type[Event], ...] = (
    PoolConfigured,
    QueueConfigured,
    SchedulingConfigured,
    TemplateConfigured,
    VolumeConfigured,
    WebhookConfigured,
)
DELETED: tuple[type[Event], ...] = (
    PoolDeleted,
    QueueDeleted,
    SchedulingDeleted,
    TemplateDeleted,
    VolumeDeleted,
    WebhookDeleted,
)


def evolve(projection: Projection, entry: Entry) -> None:
    """Fold one entry."""
    projection.position, projection.at_us = entry.position, entry.recorded_at_us
    directory.evolve(projection.directory, entry.event)
    if isinstance(entry.event, CONFIGURED):
        projection.documents[stream_of(entry.event)] = entry.header.causation
    elif isinstance(entry.event, DELETED):
        projection.documents.pop(stream_of(entry.event), None)
    fold = _FOLDS.get(type(entry.event))
    if fold is not None:
        fold(projection, entry, entry.event)


def _requested(projection: Projection, entry: Entry, event: JobRequested) -> None:
    job = _add(projection, entry, event, kind_of_group=event.kind_of_group, tasks=len(event.trials))
    job.bundle, job.inputs, job.workspace = event.bundle, event.inputs, event.workspace


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
    move(projection, job, "waiting")


def _refused(projection: Projection, entry: Entry, event: JobRefused) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.why = str(event.refusal).removeprefix("refused: ")
        _end(projection, entry, job, "refused")


def _eligible(projection: Projection, _: Entry, event: JobEligible) -> None:
    job = projection.live.get(event.job)
    if job is not None and job.state in ("submitted", "held"):
        job.why = ""
        move(projection, job, "waiting")


def _held(projection: Projection, _: Entry, event: JobHeld) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.why = event.reason
        if job.state in ("submitted", "waiting"):
            move(projection, job, "held")


def _retries(projection: Projection, _: Entry, event: JobRetries) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        job.why = ""


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
        move(projection, job, "running")


def _exited(projection: Projection, _: Entry, event: AttemptExited) -> None:
    job = projection.job(event.job)
    if job is None or event.attempt != job.attempt:
        return
    if event.outputs:
        job.outputs[event.rank] = event.outputs
    if event.checkpoint:
        job.checkpoints[event.rank] = event.checkpoint
    if job.group and event.reported and (event.rank == 0 or not job.reported):
        job.reported = event.reported


def _cancelling(projection: Projection, _: Entry, event: JobCancelling) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        reason = f"{event.reason}: {event.message}" if event.message else event.reason
        job.why = reason if not event.user else f"{event.reason} by {event.user}"
        move(projection, job, "stopping")


def _finished(projection: Projection, entry: Entry, event: JobFinished) -> None:
    job = projection.live.get(event.job)
    if job is None:
        return
    never_ran = event.outcome == "cancelled" and not event.attempt
    job.exit_code = None if never_ran or event.reason == NODE_LOST else event.exit_code
    job.ran_us = event.ran_us
    if job.waited_us < 0:
        job.waited_us = event.waited_us or max(0, entry.recorded_at_us - job.requested_at_us)
    why = why_ended(event.reason, event.message)
    job.why = why if why or event.outcome != "cancelled" else job.why
    _end(projection, entry, job, event.outcome)


def _joined(projection: Projection, _: Entry, event: NodeJoined) -> None:
    before = projection.nodes.get(event.node)
    change = before.change if before is not None else ""
    faults = before.faults if before is not None else {}
    still = still_faulted(faults, before.joined if before is not None else event, event)
    is_boot = before is not None and before.joined.boot == event.boot
    strays = before.strays if before is not None and is_boot else ()
    projection.nodes[event.node] = Node(joined=event, change=change, faults=still, strays=strays)
    for device in event.devices:
        projection.devices[device.device] = DeviceAt(event.node, device.model)


def _holds(projection: Projection, _: Entry, event: NodeHolds) -> None:
    node = projection.nodes.get(event.node)
    if node is not None:
        node.strays = event.workers


def _ahead(projection: Projection, _: Entry, event: NodeAhead) -> None:
    node = projection.nodes.get(event.node)
    if node is not None:
        node.apart = ahead_text(event.node)


def _began(projection: Projection, _: Entry, event: LogBegan) -> None:
    for name, node in projection.nodes.items() if event.how == "restored" else ():
        node.apart, node.strays = not_heard_text(name), ()


def _silent(projection: Projection, entry: Entry, event: NodeSilent) -> None:
    node = projection.nodes.get(event.node)
    if node is not None:
        node.silent_since_us = entry.recorded_at_us - event.silent_us


def _heard(projection: Projection, _: Entry, event: NodeHeard) -> None:
    node = projection.nodes.get(event.node)
    if node is not None:
        node.silent_since_us = 0


def _changed(projection: Projection, _: Entry, event: NodeChanged) -> None:
    if event.change == "delete":
        projection.nodes.pop(event.node, None)
        projection.waiting.pop(event.node, None)
    node = projection.nodes.get(event.node)
    if node is not None:
        if event.change != "end-strays":
            node.change = "" if event.change == "uncordon" else event.change
        if event.change in ("fence", "forget"):
            node.apart, node.strays = "", ()
        if event.change == "uncordon":
            node.faults = {}


def _faulted(projection: Projection, _: Entry, event: DeviceFaulted) -> None:
    node = projection.nodes.get(event.node)
    if node is not None and event.action == "drain":
        node.faults[event.device] = event.text


def _configured(projection: Projection, _: Entry, event: QueueConfigured) -> None:
    projection.queues[event.name] = event.queue
    projection.deleted.pop(event.name, None)


def _deleted(projection: Projection, _: Entry, event: QueueDeleted) -> None:
    projection.queues.pop(event.name, None)
    projection.deleted[event.name] = None
    projection.shares = {name: s for name, s in projection.shares.items() if name != event.name}
    for known in (projection.secrets, projection.webhooks, projection.templates):
        for name in [name for name in known if name[0] == event.name]:
            del known[name]


def _divided(projection: Projection, _: Entry, event: SharesDivided) -> None:
    projection.shares = event.shares


def _accounted(projection: Projection, _: Entry, event: UsageAccounted) -> None:
    use_of(projection, event.project).gpu_us += event.milli * event.held_us // 1000


def _led(projection: Projection, _: Entry, event: ServiceLed) -> None:
    projection.services[event.service] = event.epoch


_FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {
    **evolve_inventory.FOLDS,
    **evolve_joining.FOLDS,
    **evolve_sweeps.FOLDS,
    **evolve_webhooks.FOLDS,
    **evolve_workspaces.FOLDS,
    JobRequested: _requested,
    JobAdmitted: _admitted,
    JobRefused: _refused,
    JobEligible: _eligible,
    JobHeld: _held,
    JobCancelling: _cancelling,
    JobRetries: _retries,
    JobStarted: _started,
    JobFinished: _finished,
    AttemptExited: _exited,
    GangPlaced: evolve_gangs.placed,
    GangGrown: evolve_gangs.grown,
    GangShrunk: evolve_gangs.shrunk,
    GangEvicted: evolve_gangs.evicted,
    WorkersReleased: evolve_gangs.workers_released,
    GangReleased: evolve_gangs.released,
    **evolve_pauses.FOLDS,
    NodeJoined: _joined,
    NodeSilent: _silent,
    NodeHeard: _heard,
    NodeChanged: _changed,
    DeviceFaulted: _faulted,
    QueueConfigured: _configured,
    QueueDeleted: _deleted,
    SharesDivided: _divided,
    UsageAccounted: _accounted,
    ServiceLed: _led,
    LogBegan: _began,
    NodeHolds: _holds,
    NodeAhead: _ahead,
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
    projection.names.add(event.job)
    return job


def _end(projection: Projection, entry: Entry, job: Job, state: str) -> None:
    job.ended_at_us = entry.recorded_at_us
    move(projection, job, state)
    projection.live.pop(job.job, None)
    projection.ended[job.job] = job
    projection.ended_of.setdefault(job.project, {})[job.job] = None
    if len(projection.ended) > ENDED_JOBS_MAX:
        has_most = max(projection.ended_of.values(), key=len)
        oldest = projection.ended.pop(next(iter(has_most)))
        del has_most[oldest.job]
        if not has_most:
            del projection.ended_of[oldest.project]


LISTENED = frozenset(
    tag_of(event) for event in (*_FOLDS, *CONFIGURED, *DELETED, *directory.LISTENS_TO)
)
