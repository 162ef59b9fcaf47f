"""Rows of the projection as people see them.

Rule: a pure function of the projection and the clock reading `now_us`; what is still going on is
counted up to that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from headrace.client.model import (
    ENDED,
    BusStatus,
    GpuRow,
    JobRow,
    NodeRow,
    Operations,
    ProjectRow,
    Status,
)
from headrace.events.accounts import isolation_text
from headrace.events.nodes import strays_text
from headrace.events.queues import Queue
from headrace.gateway.projection import Job, Node, Projection, ProjectUse
from headrace.gateway.wants import wants

NOBODY: dict[str, int] = {}  # who holds a device that is free
RUNNING = ("starting", "running", "stopping")
STATES = {"cordon": "cordoned", "drain": "draining", "fence": "fenced", "forget": "fenced"}


def job_row(projection: Projection, job: Job, now_us: int) -> JobRow:
    """One job, task or group."""
    row = JobRow(
        job=job.job,
        project=job.project,
        name=job.name,
        user=job.user,
        kind=job.kind_of_group or ("workspace" if job.workspace else "training"),
        state=state_of(job),
        wants=wants(job.gang),
        where=_where(projection, job),
        why=job.why or _remark(job),
        group=job.group,
        index=job.index,
        tasks=job.tasks,
        tasks_parallel=job.tasks_parallel,
        attempt=job.attempt,
        evictions=job.evictions,
        exit_code=job.exit_code,
        requested_at_us=job.requested_at_us,
        started_at_us=job.started_at_us,
        ended_at_us=job.ended_at_us,
        waited_us=_waited_us(job, now_us),
        ran_us=_ran_us(job, now_us),
        held_milli=job.held_milli,
        gpu_us=job.gpu_us,
        position=job.position,
        best=job.best,
    )
    if job.tasks:
        states = job.task_states
        row.tasks_running = sum(states.get(name, 0) for name in RUNNING)
        row.tasks_ended = sum(states.get(name, 0) for name in ENDED)
        row.tasks_failed = states.get("failed", 0)
        tasks = [task for name in job.task_ids if (task := projection.job(name))]
        row.held_milli = sum(task.held_milli for task in tasks)
        row.gpu_us = sum(task.gpu_us for task in tasks)
        row.evictions = sum(task.evictions for task in tasks)
    return row


def state_of(job: Job) -> str:
    """The state word; while some task runs, a group that waits is running, one that is paused stops."""
    if job.tasks and job.state == "paused":
        runs = any(job.task_states.get(state) for state in ("running", "starting", "stopping"))
        return "stopping" if runs else "paused"
    if job.tasks and job.state in ("waiting", "held"):
        states = (s for s in ("running", "starting", "waiting", "held") if job.task_states.get(s))
        return next(states, "waiting")
    return job.state


def node_rows(projection: Projection, names: Iterable[str]) -> list[NodeRow]:
    """These nodes with their GPUs and their holders, and of those that wait for approval that they
    do.
    """
    jobs = _jobs_by_node(projection)
    return [
        _node_row(projection, projection.nodes[name], list(jobs.get(name, ())))
        if name in projection.nodes
        else NodeRow(node=name, state="waiting", host=projection.waiting[name].host)
        for name in names
    ]


def _node_row(projection: Projection, node: Node, jobs: list[str]) -> NodeRow:
    joined, holders, faults = node.joined, projection.held, node.faults
    devices, held_milli = [], 0
    for device in joined.devices:
        held = holders.get(device.device, NOBODY)
        if held:
            held_milli += sum(held.values())
        devices.append(
            GpuRow(
                device=device.device,
                index=device.index,
                model=device.model,
                memory_bytes=device.memory_bytes,
                healthy=device.healthy,
                fault=device.fault or faults.get(device.device, ""),
                held=held,
            )
        )
    return NodeRow(
        node=joined.node,
        state=node_state(node),
        host=joined.host,
        address=joined.address,
        gpus=len(devices),
        model=", ".join(dict.fromkeys([device.model for device in devices])),
        simulated=any(device.kind == "simulated" for device in joined.devices),
        milli=1000 * len(devices),
        held_milli=held_milli,
        cpu_milli=joined.cpu_milli,
        memory_bytes=joined.memory_bytes,
        jobs=jobs,
        labels=joined.labels,
        version=joined.version,
        silent_since_us=node.silent_since_us,
        devices=devices,
        isolation=isolation_text(joined.isolation, joined.trusted),
        apart=node.apart or (strays_text(joined.node, node.strays) if node.strays else ""),
    )


def project_rows(projection: Projection) -> list[ProjectRow]:
    """Departments and projects, each department before its projects; projects that were never
    configured but used come last.
    """
    live = {job.project for job in projection.live.values()}
    used_by = live | {name for name in projection.use if name not in projection.deleted}
    names = sorted({*projection.queues, *used_by}, key=lambda name: place(projection, name))
    counted, used = _counted(projection), _used(projection)
    rows = []
    for name in names:
        queue = projection.queues.get(name, Queue(queue=name, kind="project"))
        use = used.get(name, ProjectUse())
        running, waiting = counted.get(name, (0, 0))
        rows.append(
            ProjectRow(
                project=name,
                kind=queue.kind,
                parent=queue.parent,
                quota_milli=queue.quota_milli,
                limit_milli=queue.limit_milli,
                weight=queue.weight,
                share_milli=projection.shares.get(name, 0),
                held_milli=use.held_milli,
                running=running,
                waiting=waiting,
                gpu_us=use.gpu_us,
            )
        )
    return rows


def status(
    projection: Projection,
    now_us: int,
    *,
    version: str,
    bus: BusStatus,
    about: Operations,
    sees: Callable[[str], bool] | None = None,
) -> Status:
    """The platform in numbers; of jobs those of projects that are seen (None: all)."""
    counts: dict[str, int] = {}
    for job in projection.live.values():
        if not job.tasks and (sees is None or sees(job.project)):
            counts[job.state] = counts.get(job.state, 0) + 1
    devices = [
        device.device for node in projection.nodes.values() for device in node.joined.devices
    ]
    return Status(
        version=version,
        position=projection.position,
        as_of_us=now_us,
        bus=bus,
        services=projection.services,
        jobs=dict(sorted(counts.items())),
        nodes=len(projection.nodes),
        gpus=len(devices),
        held_milli=sum(sum(projection.held.get(device, {}).values()) for device in devices),
        node_states=dict(sorted(Counter(map(node_state, projection.nodes.values())).items())),
        **msgspec.structs.asdict(about),
    )


def _where(projection: Projection, job: Job) -> list[str]:
    if not job.tasks:
        return list(dict.fromkeys(worker.node for worker in job.workers))
    tasks = (projection.live.get(name) for name in job.task_ids)
    nodes = {w.node for task in tasks if task and task.held_milli for w in task.workers}
    return sorted(nodes)


def _remark(job: Job) -> str:
    """What is to be known of a job about which nothing was decided."""
    if job.best and not job.ended_at_us:
        return f"best so far {job.best}"
    if job.state in ("waiting", "held"):
        return job.warning
    if job.gang.nodes_max <= job.gang.nodes or job.state not in ("starting", "running"):
        return ""
    staying = len(job.workers) - len(job.leaving)
    leaving = f", {len(job.leaving)} more being stopped" if job.leaving else ""
    return f"runs on {staying} of {job.gang.nodes}..{job.gang.nodes_max} nodes{leaving}"


def _waited_us(job: Job, now_us: int) -> int:
    past_us = max(0, job.waited_us)
    waits = job.state in ("submitted", "waiting", "held", "starting") or job.waited_us < 0
    if not waits or job.ended_at_us or (job.tasks and job.started_at_us):
        return past_us
    return past_us + max(0, now_us - job.waiting_since_us)


def _ran_us(job: Job, now_us: int) -> int:
    if job.ran_us or not job.started_at_us:
        return job.ran_us
    return max(0, (job.ended_at_us or now_us) - job.started_at_us)


def node_state(node: Node) -> str:
    """The state word of a node that has joined."""
    if node.change:
        return STATES.get(node.change, node.change)
    return "silent" if node.silent_since_us else "ready"


def _jobs_by_node(projection: Projection) -> dict[str, dict[str, None]]:
    """The live jobs that hold something on each node, in the order of the log."""
    found: dict[str, dict[str, None]] = {}
    for job in projection.live.values():
        if job.held_milli:
            for worker in job.workers:
                found.setdefault(worker.node, {})[job.job] = None
    return found


def _counted(projection: Projection) -> dict[str, tuple[int, int]]:
    """Running and waiting jobs (tasks count, groups do not) per project and its departments."""
    counted: dict[str, tuple[int, int]] = {}
    for job in projection.live.values():
        if job.tasks:
            continue
        runs = job.state in ("starting", "running", "stopping")
        for name in _ancestors(projection.queues, job.project):
            running, waiting = counted.get(name, (0, 0))
            counted[name] = (running + runs, waiting + (not runs))
    return counted


def _used(projection: Projection) -> dict[str, ProjectUse]:
    """What each project and each of its departments holds and held."""
    used: dict[str, ProjectUse] = {}
    for project, use in projection.use.items():
        for name in _ancestors(projection.queues, project):
            total = used.setdefault(name, ProjectUse())
            total.held_milli += use.held_milli
            total.gpu_us += use.gpu_us
    return used


def place(projection: Projection, name: str) -> tuple[int | str, ...]:
    """Where a department or project stands in lists: below what it belongs to; what was never
    configured last.
    """
    path = list(_ancestors(projection.queues, name))[::-1]
    return int(name not in projection.queues), *path


def _ancestors(queues: dict[str, Queue], name: str) -> Iterator[str]:
    for _ in range(len(queues) + 1):  # a cycle, which quota refuses, cannot hold us
        yield name
        queue = queues.get(name)
        if queue is None or not queue.parent:
            return
        name = queue.parent
