"""When a job is admitted, and what it is told when it is not.

Rule: what can never run under the project's limits is refused; what merely cannot run on today's
nodes is admitted with a warning that says so.
"""

from __future__ import annotations

from difflib import get_close_matches

import msgspec

from headrace.admission.state import State
from headrace.documents import PRIORITIES
from headrace.documents.quantities import MILLI
from headrace.events import Decision, Refusal
from headrace.events.jobs import Accelerator, Gang, JobAdmitted, JobRefused, JobRequested
from headrace.events.nodes import Device
from headrace.scheduling.fitting import matches


def requested(state: State, position: int, event: JobRequested) -> Decision:
    """Admitted or refused."""
    refusal = (
        project_known(state, event.project)
        or _secrets(state, event)
        or _limits(state, event)
        or _room(state, event)
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
        warning=_warning(state, event.gang),
    )


def task(group: JobAdmitted, group_id: str, index: int) -> JobAdmitted:
    """The task `index` of an admitted group."""
    return msgspec.structs.replace(
        group,
        job=f"{group_id}/{index}",
        group=group_id,
        index=index,
        tasks=0,
        tasks_parallel=0,
        stop_after_failures=0,
        warning="",
    )


def project_known(state: State, project: str) -> Refusal | None:
    """A refusal unless the project exists."""
    queue = state.queues.get(project)
    if queue is not None and queue.kind == "project":
        return None
    names = [name for name, known in state.queues.items() if known.kind == "project"]
    near = get_close_matches(project, names, n=1)
    known = ", ".join(sorted(names)[:20]) or "none yet: headrace apply -f"
    instead = f"did you mean {near[0]}?" if near else f"known are {known}"
    return Refusal(field="project", value=project, rule="does not exist", instead=instead)


def _secrets(state: State, event: JobRequested) -> Refusal | None:
    known = state.secrets.get(event.project, {})
    for name in event.secrets:
        if name not in known:
            rule = f"project {event.project} has no secret of this name"
            instead = f"headrace secret set {name} --project {event.project}"
            return Refusal(field="secrets", value=name, rule=rule, instead=instead)
    return None


def _limits(state: State, event: JobRequested) -> Refusal | None:
    """The project's and its department's limits; the quota for what may never be preempted."""
    if not event.gang.accelerators:
        return None
    needed = event.gang.nodes * min(a.milli for a in event.gang.accelerators)
    queue = state.queues.get(event.project)
    while queue is not None:
        bound, what = queue.limit_milli, "may hold at most"
        if not event.preemptible and queue.quota_milli >= 0:
            quota = queue.quota_milli
            if bound < 0 or quota < bound:
                bound, what = quota, "is guaranteed (and a job that is never preempted must fit)"
        if 0 <= bound < needed:
            rule = f"{queue.kind} {queue.queue} {what} {_gpus(bound)} GPUs"
            fitting = bound // (needed // event.gang.nodes)
            instead = f"nodes: {fitting} fits" if fitting else "ask for fewer GPUs"
            field = "nodes" if event.gang.nodes > 1 else "resources.gpus"
            value = str(event.gang.nodes) if event.gang.nodes > 1 else _gpus(needed)
            return Refusal(field=field, value=value, rule=rule, instead=instead)
        queue = state.queues.get(queue.parent)
    return None


def _room(state: State, event: JobRequested) -> Refusal | None:
    live = state.live_of.get(event.project, 0) + max(1, len(event.trials))
    most = state.setting("jobs_per_project_max")
    if live <= most:
        return None
    rule = f"project {event.project} may have at most {most} live jobs"
    return Refusal(field="job", value=event.name, rule=rule, instead="submit it later")


def _warning(state: State, gang: Gang) -> str:
    """Why no set of today's nodes can hold the gang, or nothing."""
    if not state.nodes:
        return "accepted, but cannot run today: no node has joined yet"
    choices = gang.accelerators or (Accelerator(milli=0),)
    for choice in choices:
        fitting = sum(
            1
            for node in state.nodes.values()
            if _devices(node.devices, choice, gang.gpu_memory_bytes) >= _whole(choice.milli)
            and node.cpu_milli >= gang.cpu_milli
            and node.memory_bytes >= gang.memory_bytes
        )
        if fitting >= gang.nodes:
            return ""
    wanted = " or ".join(_described(choice) for choice in choices)
    return f"accepted, but cannot run today: {gang.nodes} nodes with {wanted} are needed"


def _devices(devices: tuple[Device, ...], choice: Accelerator, memory_bytes: int) -> int:
    return sum(
        device.memory_bytes >= memory_bytes and matches(device, choice) for device in devices
    )


def _whole(milli: int) -> int:
    return -(-milli // MILLI)


def _described(choice: Accelerator) -> str:
    return f"{_gpus(choice.milli)} × {choice.model or 'GPU'}"


def _gpus(milli: int) -> str:
    whole, rest = divmod(milli, MILLI)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)
