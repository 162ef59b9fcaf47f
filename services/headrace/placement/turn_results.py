"""What a turn of the scheduling core came to: who loses what, who gets places, who grows.

Rule: read from the tasks that changed; nothing here decides.
"""

from __future__ import annotations

import msgspec

from headrace.events.gangs import Worker
from headrace.placement.modelling import shares_of
from headrace.placement.part_gate import stakes_of
from headrace.placement.reservation_rules import next_seats
from headrace.placement.runs import Run
from headrace.placement.state import Job, State
from headrace.scheduling.claims import Seat
from headrace.scheduling.gangs import BELOW, BOUND, EVICTED, PIPELINED, Shape, Task
from headrace.scheduling.part_legality import Stakes
from headrace.scheduling.world import Gain, World


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What a gang loses and for whom: these ranks, or all it has (none). `moved`: everything lost
    has a place elsewhere then or, of all it has, its minimum, which goes to these `seats`.
    """

    gain: Gain
    ranks: tuple[int, ...]
    moved: bool
    seats: tuple[Seat, ...] = ()


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn came to: the gangs that lose something, those that get places, and those that run
    and get more.
    """

    lost: dict[str, Loss]
    placed: dict[str, Seated]
    grown: dict[str, Seated]


class Seated(msgspec.Struct, frozen=True, kw_only=True):
    """Where the workers of a gang get their places, and what those of each role asked for;
    of which parts of the fleet that is.
    """

    workers: tuple[Worker, ...]
    shapes: dict[str, Shape]
    stakes: Stakes


def read(state: State, world: World, mark: int) -> Room:
    """Of everything that changed since the mark."""
    room = Room(lost={}, placed={}, grown={})
    for name in dict.fromkeys(task.gang for task in world.changed(mark)):
        gang, job = world.gangs[name], state.jobs[name]
        tasks = sorted(gang.all_tasks(), key=lambda task: task.rank)
        bound = [task for task in tasks if task.state == BOUND]
        if job.run is None or job.waiting:
            if len(bound) >= job.gang.nodes:
                room.placed[name] = _seated(state, world, bound, 0)
            continue
        lost = [t for t in tasks if t.place is not None and t.state in (EVICTED, PIPELINED)]
        if lost:
            room.lost[name] = _loss(world, name, job, job.run, lost)
        elif bound:
            room.grown[name] = _seated(state, world, bound, job.run.ranks)
    return room


def _loss(world: World, name: str, job: Job, run: Run, lost: list[Task]) -> Loss:
    gang, gain = world.gangs[name], world.gains[name]
    ranks = _surplus(job, run, [task.rank for task in lost])
    if ranks:
        return Loss(gain=gain, ranks=ranks, moved=not gang.any_in((EVICTED,)))
    moved = gang.standing() != BELOW
    seats = next_seats(world, name, job) if moved else ()
    return Loss(gain=gain, ranks=(), moved=moved, seats=seats)


def _surplus(job: Job, run: Run, ranks: list[int]) -> tuple[int, ...]:
    """These ranks if the gang can go on without them: never rank 0, where the others meet."""
    left = [worker for worker in run.staying if worker.rank not in ranks]
    goes_on = 0 not in ranks and job.is_enough(left)
    return tuple(ranks) if goes_on else ()


def _seated(state: State, world: World, tasks: list[Task], first: int) -> Seated:
    """The tasks as workers, with their ranks from the first on."""
    job = state.jobs[tasks[0].gang]
    return Seated(
        workers=tuple(_worker(state, job, task, rank) for rank, task in enumerate(tasks, first)),
        shapes={task.role: task.shape for task in tasks},
        stakes=stakes_of(world, (task.place for task in tasks if task.place)),
    )


def _worker(state: State, job: Job, task: Task, rank: int) -> Worker:
    place = task.place
    assert place is not None  # it is bound
    node = state.nodes[place.node]
    _, cpu_milli, memory_bytes = place.amounts if job.gang.roles else (0, 0, 0)
    return Worker(
        rank=rank,
        node=node.node,
        address=node.address,
        devices=shares_of(place, node),
        role=task.role,
        cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
    )
