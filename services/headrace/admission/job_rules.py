"""When a job is admitted, and what it is told when it is not.

Rule: what can never run under the project's limits is refused; what merely cannot run on today's
nodes is admitted with a warning that says so.
"""

from __future__ import annotations

import msgspec

from headrace.admission.access_rules import being_erased, unknown_project
from headrace.admission.hearing import Hearing
from headrace.admission.room_rules import warning
from headrace.admission.state import State
from headrace.documents import PRIORITIES
from headrace.documents.nearest import nearest
from headrace.events import Decision, Refusal
from headrace.events.jobs import Accelerator, JobAdmitted, JobRefused, JobRequested
from headrace.events.queues import Queue
from headrace.scheduling.amounts import UNLIMITED
from headrace.scheduling.cluster import DEVICE_MILLI
from headrace.scheduling.explain import gpus
from headrace.scheduling.tree import path_of


def requested(hearing: Hearing, position: int, event: JobRequested) -> Decision:
    """Admitted or refused."""
    state = hearing.state
    refusal = (
        unknown_project(state, event.project)
        or being_erased(hearing, event.project)
        or _form(hearing, event)
        or _secrets(hearing, event)
        or _limits(state, event)
        or _room(hearing, event)
    )
    if refusal is not None:
        return JobRefused(job=event.job, project=event.project, refusal=refusal)
    return JobAdmitted(
        job=event.job,
        project=event.project,
        name=event.name,
        user=event.user,
        gang=event.gang,
        requested_at=position,
        priority=PRIORITIES.get(event.priority, PRIORITIES["medium"]),
        preemptible=event.preemptible,
        max_duration_us=event.max_duration_us,
        tasks=len(event.trials),
        tasks_parallel=event.trials_parallel,
        stop_after_failures=event.stop_after_failures,
        warning=warning(state, event.gang),
    )


def task(group: JobAdmitted, index: int) -> JobAdmitted:
    """The task `index` of an admitted group."""
    return msgspec.structs.replace(
        group,
        job=f"{group.job}/{index}",
        group=group.job,
        index=index,
        tasks=0,
        tasks_parallel=0,
        stop_after_failures=0,
        warning="",
    )


def _form(hearing: Hearing, event: JobRequested) -> Refusal | None:
    """What the shell could not know when it recorded the request."""
    if hearing.is_taken(event.job):
        return Refusal(field="job", value=event.job, rule="is another job's id already")
    if not event.launch_key:
        rule = "did not exist yet when the job was received"
        return Refusal(field="project", value=event.project, rule=rule, instead="submit it again")
    return None


def _secrets(hearing: Hearing, event: JobRequested) -> Refusal | None:
    for name in event.secrets:
        if not hearing.has_secret(event.project, name):
            rule = f"project {event.project} has no secret of this name"
            near = nearest(name, hearing.state.secrets.get(event.project, {}))
            instead = f"headrace secret set {name} --project {event.project}"
            if near:
                instead = f"did you mean {near}? Or {instead}"
            return Refusal(field="secrets", value=name, rule=rule, instead=instead)
    return None


def _limits(state: State, event: JobRequested) -> Refusal | None:
    """The limits of the project and of what it belongs to; for what may never be preempted, their
    quotas too.
    """
    if not event.gang.accelerators or event.gang.gpu_memory_bytes:
        return None
    least = min(event.gang.accelerators, key=lambda kind: kind.milli)
    needed = least.milli * event.gang.nodes
    for name in reversed(path_of(state.queues, event.project)):
        queue = state.queues[name]
        if queue.limit_milli != UNLIMITED and needed > queue.limit_milli:
            return _above(state, queue, queue.limit_milli, event, least)
        if not event.preemptible and UNLIMITED != queue.quota_milli < needed:
            return _not_guaranteed(state, queue, event, needed)
    return None


def _above(
    state: State, queue: Queue, limit_milli: int, event: JobRequested, least: Accelerator
) -> Refusal:
    nodes, needed = event.gang.nodes, least.milli * event.gang.nodes
    set_by = f"limit set by apply at position {state.configured.get(queue.queue, 0)}"
    rule = f"{queue.kind} {queue.queue} may hold at most {gpus(limit_milli)} GPUs ({set_by})"
    if nodes == 1:
        instead = f"gpus: {gpus(limit_milli)} fits" if limit_milli else ""
        return Refusal(field="resources.gpus", value=_kind(least), rule=rule, instead=instead)
    rule = f"{rule}; {nodes} × {_kind(least)} is {gpus(needed)}"
    fitting = limit_milli // least.milli
    instead = f"nodes: {fitting} fits" if fitting else ""
    return Refusal(field="nodes", value=str(nodes), rule=rule, instead=instead)


def _not_guaranteed(state: State, queue: Queue, event: JobRequested, needed: int) -> Refusal:
    set_by = f"quota set by apply at position {state.configured.get(queue.queue, 0)}"
    quota = gpus(queue.quota_milli)
    return Refusal(
        field="preemptibility",
        value="non-preemptible",
        rule=f"{queue.kind} {queue.queue} is guaranteed {quota} GPUs ({set_by}) and a job that is "
        f"never preempted must fit; {event.gang.nodes} × "
        f"{gpus(needed // event.gang.nodes)} is {gpus(needed)}",
        instead="preemptible may use more",
    )


def _room(hearing: Hearing, event: JobRequested) -> Refusal | None:
    live = hearing.live_of(event.project) + max(1, len(event.trials))
    most = hearing.state.setting("jobs_per_project_max")
    if live <= most:
        return None
    rule = f"project {event.project} may have at most {most} live jobs"
    return Refusal(field="job", value=event.name, rule=rule, instead="submit it later")


def _kind(kind: Accelerator) -> str:
    """As a job file names it: `H100:8`."""
    whole = kind.milli % DEVICE_MILLI == 0
    amount = str(kind.milli // DEVICE_MILLI) if whole else gpus(kind.milli)
    return f"{kind.model}:{amount}" if kind.model else amount
