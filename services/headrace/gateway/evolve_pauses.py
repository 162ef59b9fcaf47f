"""How the projection follows jobs that leave their GPUs and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry, Event
from headrace.events.pauses import (
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.gateway.evolve_gangs import give_back, hold
from headrace.gateway.projection import Job, Projection, move


def _wanted(projection: Projection, _: Entry, event: JobPausing) -> None:
    job = projection.live.get(event.job)
    if job is None:
        return
    job.why = f"is to pause, for {event.user}" if event.user else "is to pause"
    if job.tasks:
        job.ways = {}
        move(projection, job, "paused")


def _leaving(projection: Projection, _: Entry, event: GangPausing) -> None:
    job = projection.live.get(event.job)
    if job is not None and event.phase == "locked":
        job.evictions += bool(event.gainer)
        job.why = f"{event.reason} for {event.gainer}" if event.gainer else "leaves its GPUs"
        move(projection, job, "stopping")


def _left(projection: Projection, entry: Entry, event: GangPaused) -> None:
    give_back(projection, entry, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.waiting_since_us = entry.recorded_at_us
        job.why = f"paused by {event.way}, in the memory of its nodes"
        move(projection, job, "waiting")


def _resumed(projection: Projection, entry: Entry, event: GangResumed) -> None:
    hold(projection, entry, event)
    job = projection.live.get(event.job)
    if job is not None:
        job.workers, job.held_milli, job.why = event.workers, event.milli, ""
        move(projection, job, "running")


def _paused(projection: Projection, _: Entry, event: JobPaused) -> None:
    job = projection.live.get(event.job)
    if job is not None:
        lost = f"; lost: {event.lost}" if event.lost else ""
        job.why = f"paused by {event.way}{lost}" if event.way != "waiting" else "paused"
        move(projection, job, "paused")
        _count(projection.live.get(job.group), event.way)


def _count(group: Job | None, way: str) -> None:
    """Say of a group that is paused which ways its tasks took."""
    if group is not None and group.state == "paused":
        group.ways[way] = group.ways.get(way, 0) + 1
        told = (f"{count} {_WAYS.get(way, f'by {way}')}" for way, count in group.ways.items())
        group.why = f"paused: {', '.join(told)}"


def _resuming(projection: Projection, entry: Entry, event: JobResuming) -> None:
    job = projection.live.get(event.job)
    if job is not None and job.state == "paused":
        job.waiting_since_us = entry.recorded_at_us
        job.why = "is resumed"
        move(projection, job, "waiting")


_WAYS = {"waiting": "before they ran"}  # other ways are called by their names

FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {
    JobPausing: _wanted,
    JobPaused: _paused,
    JobResuming: _resuming,
    GangPausing: _leaving,
    GangPaused: _left,
    GangResumed: _resumed,
}
