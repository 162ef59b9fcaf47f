"""Placement's state as the scheduling core sees it.

Rule: a function of one job, node or queue each, so that a `World` can follow the log piece by piece.
Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.events.gangs import Share, Worker
from headrace.events.jobs import Accelerator
from headrace.events.jobs import Gang as Asked
from headrace.events.queues import Queue
from headrace.placement.state import Job, Run
from headrace.scheduling.cluster import DEVICE_MILLI, Device, Node
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import RELEASING, RUNNING, Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.machines import Kind, MachineSpec, takes

MIB = 2**20
ROLE = "worker"
SIZE_TOLERANCE_PERCENT = 8  # a marketed size matches within this of the driver's figure

_ANY = Accelerator(milli=0)


def machine_of(node: Node) -> MachineSpec:
    """A node; its devices are numbered in the order in which the state has them."""
    return MachineSpec(
        name=node.node,
        devices=len(node.devices),
        kinds=tuple(_kind(device) if device.usable else None for device in node.devices),
        cpu_milli=node.cpu_milli,
        memory_bytes=node.memory_bytes,
        accepting=node.accepting,
    )


def queue_specs(queues: Mapping[str, Queue]) -> dict[str, QueueSpec]:
    """The queues, in the order in which they were made."""
    return {name: _spec(queue, age) for age, (name, queue) in enumerate(queues.items())}


def gang_of(job_id: str, job: Job, nodes: Mapping[str, Node], *, leaving: bool = False) -> Gang:
    """A job that waits or runs. `leaving`: it is being stopped in this very turn."""
    options = shapes_of(job.gang)
    run = job.run
    gang = Gang(
        name=job_id,
        queue=job.project,
        root=Group(roles=(Role(name=ROLE, minimum=job.gang.nodes),)),
        priority=job.priority,
        preemptible=job.preemptible,
        age=job.admitted_at,
        submitted_at_us=job.admitted_us,
        started_at_us=(run.begun_us or run.placed_us) if run is not None else None,
        staleness_grace_us=-1,  # a worker that is lost ends its attempt at once
        options=options if len(options) > 1 else (),
    )
    if run is None:
        for rank in range(job.gang.nodes):
            gang.add(_task(job_id, rank, options[0]))
        return gang
    state = RELEASING if run.evicted or run.exits or leaving else RUNNING
    for worker in run.workers:
        place = _place(worker, run, nodes)
        task = _task(job_id, worker.rank, _shape_of(worker, options, nodes))
        task.state, task.place = state, place
        gang.add(task)
    return gang


def shapes_of(asked: Asked) -> tuple[Shape, ...]:
    """What one worker asks for, the best first."""
    return tuple(_shape(asked, kind) for kind in asked.accelerators or (_ANY,))


def shares_of(place: Place, node: Node) -> tuple[Share, ...]:
    """The devices of a place on its node."""
    return tuple(Share(device=node.devices[i].device, milli=place.milli) for i in place.devices)


def _task(job_id: str, rank: int, shape: Shape) -> Task:
    return Task(name=f"{job_id}/{rank}", gang=job_id, role=ROLE, rank=rank, shape=shape)


def _shape(asked: Asked, kind: Accelerator) -> Shape:
    whole, odd = divmod(kind.milli, DEVICE_MILLI)
    share = bool(asked.gpu_memory_bytes) or (odd and not whole)
    return Shape(
        devices=1 if share else whole,
        device_milli=kind.milli if odd and not whole else DEVICE_MILLI,
        device_memory_mib=-(-asked.gpu_memory_bytes // MIB),
        model=kind.model,
        memory_min_mib=-(-kind.memory_bytes_min * 100 // ((100 + SIZE_TOLERANCE_PERCENT) * MIB)),
        memory_max_mib=kind.memory_bytes_max * 100 // ((100 - SIZE_TOLERANCE_PERCENT) * MIB),
        cpu_milli=asked.cpu_milli,
        memory_bytes=asked.memory_bytes,
        only=() if whole and odd else None,  # one and a half GPUs are nowhere
        apart=asked.nodes > 1,
    )


def _kind(device: Device) -> Kind:
    return Kind(model=device.model, memory_mib=device.memory_bytes // MIB)


def _shape_of(worker: Worker, options: tuple[Shape, ...], nodes: Mapping[str, Node]) -> Shape:
    """Which of the options the worker got."""
    node = nodes.get(worker.node)
    mine = {share.device for share in worker.devices}
    kinds = [_kind(d) for d in node.devices if d.device in mine] if node is not None else []
    fitting = (shape for shape in options if all(takes(shape, kind) for kind in kinds))
    return next(fitting, options[0])


def _place(worker: Worker, run: Run, nodes: Mapping[str, Node]) -> Place:
    node = nodes.get(worker.node)
    mine = {share.device for share in worker.devices}
    devices = node.devices if node is not None else ()
    return Place(
        node=worker.node,
        amounts=(sum(s.milli for s in worker.devices), run.cpu_milli, run.memory_bytes),
        devices=tuple(i for i, device in enumerate(devices) if device.device in mine),
        milli=worker.devices[0].milli if worker.devices else 0,
    )


def _spec(queue: Queue, age: int) -> QueueSpec:
    gpu = Ration(quota=queue.quota_milli, limit=queue.limit_milli, weight=queue.weight)
    rest = Ration(quota=-1)
    return QueueSpec(
        queue=queue.queue,
        parent=queue.parent,
        priority=queue.priority,
        age=age,
        rations=(gpu, rest, rest),
    )
