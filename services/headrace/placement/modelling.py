"""Placement's state as the scheduling core sees it.

Rule: a function of one job, node or queue each, so that a `World` can follow the log piece by piece.
Nothing here decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from headrace.events.gangs import Seat, Share, Worker
from headrace.events.pools import Pool
from headrace.placement import account_rules
from headrace.placement.offers import Offer, offer_of
from headrace.placement.option_rules import family_of
from headrace.placement.reach_rules import labels_of
from headrace.placement.release_rules import dispensable
from headrace.placement.runs import Run
from headrace.placement.state import Job, Machine, State
from headrace.scheduling.banks import Kind
from headrace.scheduling.cluster import Device, Node
from headrace.scheduling.gangs import (
    PENDING,
    RELEASING,
    RUNNING,
    Gang,
    Place,
    Shape,
    Task,
)
from headrace.scheduling.machines import MachineSpec, takes
from headrace.scheduling.rations import leaf_of, owner_of
from headrace.scheduling.settings import Settings

SECOND_US = 1_000_000
NEVER_US = 2**62
STEPS_MAX = 200  # evictions tried for one gang: a turn has its limit
Options: TypeAlias = tuple[tuple[Shape, ...], ...]  # the best first, of each role in order
POLICIES = {"fragmentation-aware": "fragmentation"}  # by the name that documents use


def settings_of(state: State) -> Settings:
    """How turns are taken: each pool with its own policy and levels."""
    pools = state.pools
    return Settings(
        steps_max=STEPS_MAX,
        growth_evicts=False,
        reserve_after_us=state.setting("reserve_after_s") * SECOND_US,
        release_us=state.setting("release_s") * SECOND_US,
        reservations_max=state.setting("reservations_max"),
        reserve_steps_max=state.setting("reserve_steps_max"),
        consolidate_after_us=state.setting("consolidate_after_s") * SECOND_US,
        usage_strength=state.setting("usage_strength_milli"),
        usage_min_runtime_us=state.setting("usage_min_runtime_s") * SECOND_US,
        policies={name: POLICIES.get(p.placement, p.placement) for name, p in pools.items()},
        levels={name: pool.topology for name, pool in pools.items()},
    )


def machine_of(node: Node, machine: Machine, pools: Mapping[str, Pool]) -> MachineSpec:
    """A node; its devices are numbered in the order in which the state has them."""
    labels = machine.said.labels
    return MachineSpec(
        name=node.node,
        devices=len(node.devices),
        kinds=tuple(_kind(device) if device.usable else None for device in node.devices),
        models=() if all(d.usable for d in node.devices) else tuple(d.model for d in node.devices),
        cpu_milli=node.cpu_milli,
        memory_bytes=max(0, node.memory_bytes - machine.kept_bytes),
        labels=labels | labels_of(machine.said),
        taints=account_rules.taints_of(machine.said),
        accepting=node.accepting,
        has_engine=bool(machine.said.engine),
        is_full=machine.too_full,
        pool=next((name for name, pool in pools.items() if pool.has(labels)), ""),
    )


def gang_of(state: State, job_id: str, job: Job, offer: Offer | None = None) -> Gang:
    """A job that waits or runs; `offer` is what it is offered, where that is known."""
    if offer is None:
        offer = offer_of(state, family_of(job.project, job_id), job.gang)
    options = offer.options
    parts = job.gang.by_role()
    run, queue = job.run, state.queues.get(job.project)
    protected = job.protected_minimum and job.preemptible
    gang = Gang(
        name=job_id,
        queue=leaf_of(queue, job.project, job.user),
        owner=owner_of(job.project, job.user),
        root=offer.root,
        priority=job.priority,
        preemptible=job.preemptible,
        protected_minimum=protected,
        age=job.admitted_at,
        submitted_at_us=job.admitted_us,
        started_at_us=(run.begun_us or run.placed_us) + run.rested_us if run is not None else None,
        max_duration_us=job.max_duration_us,
        room_by_us=job.room_by_us,
        staleness_grace_us=-1,  # a worker that is lost ends its attempt at once
        options=options if len(options) > 1 else (),
    )
    if run is not None and not run.booked:
        tasks = _bound(state, job_id, job, run, offer.anywhere)
        gang.options, gang.started_at_us = (), None
        gang.submitted_at_us = NEVER_US  # nothing is reserved or moved for it: it has its nodes
    elif run is not None:
        tasks = _had(state, job_id, job, run, offer.anywhere)
    else:
        tasks = _wanted(job_id, job, options[0])
    firm = {name: part.nodes if protected else 0 for name, part in parts.items()}
    for task in tasks:
        task.firm = firm[task.role] > 0 and task.state in (PENDING, RUNNING)
        firm[task.role] -= task.firm
        gang.add(task)
    return gang


def _wanted(job_id: str, job: Job, option: tuple[Shape, ...]) -> list[Task]:
    """First what each role has at least, then what each may have."""
    parts = job.gang.by_role()
    least = [name for name, part in parts.items() for _ in range(part.nodes)]
    more = [n for n, part in parts.items() for _ in range(part.nodes_max - part.nodes)]
    shapes = dict(zip(parts, option, strict=True))
    return [_task(job_id, rank, (r, shapes[r])) for rank, r in enumerate((*least, *more))]


def _had(state: State, job_id: str, job: Job, run: Run, options: Options) -> list[Task]:
    """What runs or goes and, of a gang that may grow, what it lacks for its maximum: of the same
    shape.
    """
    shapes: dict[str, Shape] = {}
    staying = {worker.rank for worker in run.staying} if _goes_on(job, run) else ()
    tasks = []
    for worker, shape in _shapes_of(state, job, run, options):
        shapes.setdefault(worker.role, shape)
        task = _task(job_id, worker.rank, (worker.role, shape))
        task.state = RUNNING if worker.rank in staying else RELEASING
        task.place = _place(worker, run, state.nodes)
        tasks.append(task)
    if job.growing:
        more = enumerate(_lacking(job, run), run.ranks)
        tasks += [_task(job_id, rank, (role, shapes[role])) for rank, role in more]
    return tasks


def _bound(state: State, job_id: str, job: Job, run: Run, options: Options) -> list[Task]:
    """Its workers can go on where their processes are, in the memory that is kept for them."""
    tasks = []
    for worker, shape in _shapes_of(state, job, run, options):
        here = msgspec.structs.replace(shape, only=(worker.node,), memory_bytes=0)
        tasks.append(_task(job_id, worker.rank, (worker.role, here)))
    return tasks


def _shapes_of(
    state: State, job: Job, run: Run, options: Options
) -> Iterator[tuple[Worker, Shape]]:
    """Each of its workers, with what it asked for."""
    roles = list(job.gang.by_role())
    for worker in run.workers:
        asked = tuple(option[roles.index(worker.role)] for option in options)
        yield worker, _shape_of(worker, asked, state.nodes)


def _lacking(job: Job, run: Run) -> list[str]:
    """The roles of the workers that it has fewer than it may."""
    have = Counter(worker.role for worker in run.staying)
    parts = job.gang.by_role()
    return [name for name, part in parts.items() for _ in range(part.nodes_max - have[name])]


def _goes_on(job: Job, run: Run) -> bool:
    """Whether what has not gone of the attempt runs on."""
    return not (run.evicted or run.gives_back) and len(dispensable(job, run)) == len(run.exits)


def shares_of(place: Place, node: Node) -> tuple[Share, ...]:
    """The devices of a place on its node."""
    return tuple(Share(device=node.devices[i].device, milli=place.milli) for i in place.devices)


def seat_of(seat: Seat, job: Job, nodes: Mapping[str, Node]) -> Place | None:
    """Where a seat is; None when a device of it is there no more."""
    known = nodes[seat.node].devices if seat.node in nodes else ()
    least = [part for part in job.gang.by_role().values() for _ in range(part.nodes)]
    asked = least[min(seat.rank, len(least) - 1)]
    index = {device.device: number for number, device in enumerate(known)}
    if any(device not in index for device in seat.devices):
        return None
    return Place(
        node=seat.node,
        amounts=(seat.milli, asked.cpu_milli, asked.memory_bytes),
        devices=tuple(index[device] for device in seat.devices),
        milli=seat.milli // len(seat.devices) if seat.devices else 0,
        count=seat.count,
        bank=seat.kind,
    )


def task_name(job_id: str, rank: int) -> str:
    """What the scheduling core calls a worker."""
    return f"{job_id}/{rank}"


def _task(job_id: str, rank: int, what: tuple[str, Shape]) -> Task:
    role, shape = what
    return Task(name=task_name(job_id, rank), gang=job_id, role=role, rank=rank, shape=shape)


def _kind(device: Device) -> Kind:
    return Kind(model=device.model, memory_bytes=device.memory_bytes, profile=device.profile)


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
        amounts=(sum(s.milli for s in worker.devices), *run.takes(worker)),
        devices=tuple(i for i, device in enumerate(devices) if device.device in mine),
        milli=worker.devices[0].milli if worker.devices else 0,
    )
