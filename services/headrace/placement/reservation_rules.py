"""What placement has promised to jobs that have waited long, and to those that it has moved: read
from the state, recorded in it.

Rule: a reservation is recorded when it is made, when it becomes earlier, and when it stands no more
(`act.rule` is why: see the core's `withdrawal`); being placed, held or cancelled ends it without a
word. Whoever is stopped to go on elsewhere is promised those seats in the same decision: nobody,
also not the gang that it made way for, takes them meanwhile, and so it need have nobody stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from headrace.decider import Draft
from headrace.events.gangs import Act, GangReserved, Seat
from headrace.placement.derived import index_of
from headrace.placement.kept import takes_part
from headrace.placement.modelling import SECOND_US, seat_of, task_name
from headrace.placement.runs import MOVED
from headrace.placement.state import Job, Reserved, State
from headrace.scheduling.claims import Reservation
from headrace.scheduling.claims import Seat as Place
from headrace.scheduling.gangs import PLACED
from headrace.scheduling.seats import to_come
from headrace.scheduling.withdrawal import why_not_at
from headrace.scheduling.world import World

WAITED, DEVICE_GONE = "waited", "device-gone"  # why one is made, and why one has no seats any more


def reserved_in(state: State) -> dict[str, Reservation]:
    """The reservations in the core's terms; not those whose devices have gone, or of jobs that can
    go nowhere else and have to wait.
    """
    found = {}
    for job_id in sorted(index_of(state).reserved):
        job = state.jobs[job_id]
        assert job.reserved is not None  # the index says so
        reservation = _reservation(state, job_id, job, job.reserved)
        if reservation is not None and takes_part(state, job):
            found[job_id] = reservation
    return found


class Kept(NamedTuple):
    """The reservations before and after a turn's look at them, and why some were withdrawn."""

    before: Mapping[str, Reservation]
    after: Mapping[str, Reservation]
    withdrawn: Mapping[str, str]


def recorded(state: State, kept: Kept, without: Collection[str]) -> list[Draft]:
    """What has changed for whom, but for those that get their places in this very decision."""
    dropped = [job_id for job_id in sorted(index_of(state).reserved) if job_id not in kept.after]
    changed = [job_id for job_id, one in kept.after.items() if kept.before.get(job_id) != one]
    drafts = [
        _draft(state, job_id, None, kept.withdrawn.get(job_id, DEVICE_GONE))
        for job_id in dropped
        if job_id not in without
    ]
    drafts += (
        _draft(state, job_id, kept.after[job_id], WAITED)
        for job_id in changed
        if job_id not in without
    )
    return drafts


def next_seats(world: World, job_id: str, job: Job) -> tuple[Place, ...]:
    """Where the minimum of a gang goes on that a turn has moved, by the ranks of its next attempt;
    nowhere when it could not come back to where some of it would have stayed.
    """
    gang = world.gangs[job_id]
    tasks = [
        task
        for role, part in job.gang.by_role().items()
        for task in [t for t in gang.tasks.get(role, ()) if t.state in PLACED][: part.nodes]
    ]
    places = [place for task in tasks if (place := task.coming or task.place) is not None]
    if why_not_at(world, gang, tasks, places):
        return ()
    return tuple(
        Place(task=task_name(job_id, rank), place=to_come(world, task.shape, place))
        for rank, (task, place) in enumerate(zip(tasks, places, strict=True))
    )


def promised(state: State, job_id: str, seats: tuple[Place, ...], now_us: int) -> Draft:
    """These seats are for a job that is being stopped to go there: by when all should have gone."""
    at_us = now_us + state.setting("release_s") * SECOND_US
    found = Reservation(gang=job_id, at_us=at_us, made_at_us=now_us, seats=seats)
    return _draft(state, job_id, found, MOVED)


def _reservation(state: State, job_id: str, job: Job, reserved: Reserved) -> Reservation | None:
    seats = []
    for seat in reserved.seats:
        place = seat_of(seat, job, state.nodes)
        if place is None:
            return None
        seats.append(Place(task=task_name(job_id, seat.rank), place=place))
    return Reservation(
        gang=job_id, at_us=reserved.at_us, made_at_us=reserved.made_at_us, seats=tuple(seats)
    )


def _draft(state: State, job_id: str, reservation: Reservation | None, rule: str) -> Draft:
    job = state.jobs[job_id]
    ranks = {task_name(job_id, rank): rank for rank in range(job.gang.nodes)}
    seats = tuple(
        Seat(
            rank=ranks[seat.task],
            node=seat.place.node,
            devices=tuple(
                state.nodes[seat.place.node].devices[i].device for i in seat.place.devices
            ),
            milli=seat.place.amounts[0],
            count=seat.place.count,
            kind=seat.place.bank,
        )
        for seat in (reservation.seats if reservation is not None else ())
    )
    old = {"before_us": job.reserved.at_us} if job.reserved is not None else {}
    event = GangReserved(
        job=job_id,
        project=job.project,
        at_us=reservation.at_us if reservation is not None else 0,
        seats=seats,
        act=Act(rule=rule, numbers={"admitted_us": job.admitted_us, "nodes": len(seats)} | old),
    )
    return Draft(event=event, causation=job.admitted_at, traceparent=job.traceparent)
