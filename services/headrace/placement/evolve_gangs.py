"""How gangs change in placement's state: placed, evicted, released; where the search goes on.

Rule: total. What names a job or an attempt that is not (or no longer) there changes nothing.
"""

from __future__ import annotations

from headrace.events import Entry
from headrace.events.gangs import (
    GangEvicted,
    GangPlaced,
    GangReleased,
    GangReserved,
    SearchSuspended,
)
from headrace.placement import evolve_pauses
from headrace.placement.derived import index_of, settle
from headrace.placement.life_rules import FOR_OTHERS
from headrace.placement.pause_rules import LEAVES
from headrace.placement.state import Reserved, Run, Searching, State
from headrace.scheduling.eviction_budgets import counted
from headrace.scheduling.rations import path_up
from headrace.scheduling.tree import add_usage


def placed(state: State, entry: Entry, event: GangPlaced) -> None:
    """The gang has its devices."""
    job = state.jobs.get(event.job)
    if job is None:
        return
    job.attempt, job.gaining, job.closing = event.attempt, False, False
    job.reserved = None
    job.run = Run(
        attempt=event.attempt,
        position=entry.position,
        placed_us=entry.recorded_at_us,
        workers=event.workers,
        port=event.port,
        milli=event.milli,
        cpu_milli=event.cpu_milli,
        memory_bytes=event.memory_bytes,
        booked_us=entry.recorded_at_us,
    )
    for worker in event.workers:
        node = state.nodes.get(worker.node)
        if node is not None:
            node.take(worker.devices, event.cpu_milli, event.memory_bytes)
    add_usage(state.queues, state.usage, job.project, event.milli, firm=not job.preemptible)
    if event.workers and event.port:
        address = event.workers[0].address
        state.ports.setdefault(address, {})[event.port] = event.job
        state.ports_next[address] = event.port + 1
    settle(state, event.job, job)


def reserved(state: State, entry: Entry, event: GangReserved) -> None:
    """It has room later, or not any more."""
    job = state.jobs.get(event.job)
    if job is None:
        return
    made_at_us = job.reserved.made_at_us if job.reserved is not None else entry.recorded_at_us
    found = Reserved(at_us=event.at_us, made_at_us=made_at_us, seats=event.seats)
    job.reserved = found if event.seats else None
    settle(state, event.job, job)


def evicted(state: State, entry: Entry, event: GangEvicted) -> None:
    """It is to stop; whoever that is for comes first."""
    job = state.jobs.get(event.job)
    if job is not None and job.run is not None and job.run.attempt == event.attempt:
        again = job.run.pause is not None and job.run.gainer == event.gainer
        job.run.evicted, job.run.gainer = event.reason, event.gainer
        job.run.evicted_us, job.run.way = entry.recorded_at_us, event.way
        if event.reason in FOR_OTHERS and not again:
            spend(state, job.project, entry.recorded_at_us)
        settle(state, event.job, job)
    gaining(state, event.gainer)


def gaining(state: State, gainer: str) -> None:
    """Somebody is stopped for this job: it comes first."""
    job = state.jobs.get(gainer)
    if job is not None and job.waiting:
        job.gaining = True
        settle(state, gainer, job)


def spend(state: State, project: str, at_us: int) -> None:
    """One job more was taken from the project and all that is above it."""
    for queue in path_up(state.queues, project):
        bound, per_us = queue.evictions_max, queue.evictions_per_us
        if bound > 0 and per_us > 0:
            before = state.evictions.get(queue.queue, [])
            state.evictions[queue.queue] = counted(before, at_us, bound, per_us)
            index_of(state).watch_budget(at_us + per_us)


def released(state: State, entry: Entry, event: GangReleased) -> None:
    """Its devices are free."""
    del entry
    job = state.jobs.get(event.job)
    run = job.run if job is not None else None
    if job is None or run is None or run.attempt != event.attempt:
        return
    evolve_pauses.give_back(state, job, run)
    if run.port:
        address = run.workers[0].address
        ports = state.ports.get(address, {})
        if ports.get(run.port) == event.job:
            del ports[run.port]
    job.lost += int(event.again and run.evicted not in (*FOR_OTHERS, *LEAVES))
    job.run, job.closing = None, not event.again
    settle(state, event.job, job)


def suspended(state: State, _entry: Entry, event: SearchSuspended) -> None:
    """Where the search goes on."""
    before = state.searching
    state.searching = Searching(
        action=event.action,
        job=event.job,
        stale=before.stale and bool(event.job),
        over=not event.job and not before.stale,
    )
