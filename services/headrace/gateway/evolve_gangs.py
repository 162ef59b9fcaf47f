"""How the projection follows gangs: who has which devices, and what is to stop."""

from __future__ import annotations

from headrace.events import Entry
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    WorkersReleased,
)
from headrace.events.pauses import GangPaused, GangResumed
from headrace.gateway.accounting import Booking, account
from headrace.gateway.projection import Projection, move, use_of


def placed(projection: Projection, entry: Entry, event: GangPlaced) -> None:
    """The gang has its devices."""
    hold(projection, entry, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.attempt, job.workers, job.held_milli = event.attempt, event.workers, event.milli
        job.why, job.outputs, job.reported = "", {}, {}
        move(projection, job, "starting")


def grown(projection: Projection, entry: Entry, event: GangGrown) -> None:
    """It has more workers."""
    hold(projection, entry, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.workers += event.workers
        job.held_milli += event.milli


def shrunk(projection: Projection, _: Entry, event: GangShrunk) -> None:
    """Some of it is to stop."""
    job = projection.live.get(event.job)
    if job is not None:
        job.leaving += event.ranks


def evicted(projection: Projection, _: Entry, event: GangEvicted) -> None:
    """It is to stop."""
    job = projection.live.get(event.job)
    if job is not None:
        job.evictions += bool(event.gainer)
        if event.reason != "cancelled":  # who cancelled it is known already
            job.why = f"{event.reason} for {event.gainer}" if event.gainer else event.reason
        move(projection, job, "stopping")


def workers_released(projection: Projection, entry: Entry, event: WorkersReleased) -> None:
    """Some of its devices are free."""
    give_back(projection, entry, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.workers = tuple(worker for worker in job.workers if worker.rank not in event.ranks)
        job.leaving = tuple(rank for rank in job.leaving if rank not in event.ranks)


def released(projection: Projection, entry: Entry, event: GangReleased) -> None:
    """All of its devices are free."""
    give_back(projection, entry, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.leaving = ()
        if event.again:
            job.waiting_since_us = entry.recorded_at_us
            job.started_at_us = 0
            job.why = f"tried again after {event.reason}" if event.rests_until_us else ""
            move(projection, job, "waiting")


def hold(projection: Projection, entry: Entry, event: GangPlaced | GangGrown | GangResumed) -> None:
    """The job has these workers' devices."""
    for worker in event.workers:
        for share in worker.devices:
            holders = projection.held.setdefault(share.device, {})
            holders[event.job] = holders.get(event.job, 0) + share.milli
            since = projection.since.setdefault(share.device, {})
            since.setdefault(event.job, entry.recorded_at_us)
    use_of(projection, event.project).held_milli += event.milli


def give_back(
    projection: Projection, entry: Entry, event: GangReleased | WorkersReleased | GangPaused
) -> None:
    """The job has these devices no more."""
    end_us = entry.recorded_at_us
    for share in event.shares:
        account(
            projection, Booking(event.job, event.project, share, end_us - event.held_us, end_us)
        )
        holders = projection.held.get(share.device, {})
        left = holders.pop(event.job, 0) - share.milli
        since = projection.since.get(share.device, {})
        if left > 0:
            holders[event.job] = left
        else:
            since.pop(event.job, None)
        if not holders:
            projection.held.pop(share.device, None)
            projection.since.pop(share.device, None)
    use_of(projection, event.project).held_milli -= event.milli
    job = projection.live.get(event.job)
    if job is not None:
        job.held_milli -= event.milli
        job.gpu_us += event.milli * event.held_us // 1000
