"""How gangs change in placement's state: placed, grown, shrunk, evicted, released; where the search
goes on.

Rule: total. What names a job or an attempt that is not (or no longer) there changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace.events import Entry
from headrace.events.attempts import AttemptOverran
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangReserved,
    GangShrunk,
    SearchSuspended,
    Worker,
    WorkersReleased,
)
from headrace.events.jobs import JobRetries
from headrace.placement import evolve_nodes, evolve_pauses, port_rules
from headrace.placement.derived import index_of, settle
from headrace.placement.end_rules import FOR_OTHERS, REQUEUED, is_counted
from headrace.placement.modelling import SECOND_US
from headrace.placement.pause_rules import LEAVES
from headrace.placement.runs import Grant, Run
from headrace.placement.state import SEARCH_RESTS_S, Job, Reserved, Searching, State
from headrace.placement.usage_rules import metered
from headrace.scheduling.eviction_budgets import counted
from headrace.scheduling.rations import path_up
from headrace.scheduling.tree import add_usage

Workers = tuple[Worker, ...]


def placed(state: State, entry: Entry, event: GangPlaced) -> None:
    """The gang has its devices."""
    job = state.jobs.get(event.job)
    if job is None:
        return
    job.attempt, job.room_by_us, job.closing = event.attempt, 0, False
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
        ranks=len(event.workers),
        since_us=entry.recorded_at_us,
    )
    _take(state, job.run, event.workers)
    use(state, job, ((), event.workers), entry.recorded_at_us)
    port_rules.take(state, event.job, event.workers)
    settle(state, event.job, job)


def grown(state: State, entry: Entry, event: GangGrown) -> None:
    """It has more workers."""
    job, run = _live(state, event.job, event.attempt)
    if job is None or run is None:
        return
    before, run.workers = run.workers, (*run.workers, *event.workers)
    grant = Grant(position=entry.position, at_us=entry.recorded_at_us)
    run.grants |= {worker.rank: grant for worker in event.workers}
    run.ranks = max((run.ranks, *(worker.rank + 1 for worker in event.workers)))
    run.milli += event.milli
    port_rules.take(state, event.job, event.workers)
    _take(state, run, event.workers)
    use(state, job, (before, run.workers), entry.recorded_at_us)
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


def shrunk(state: State, entry: Entry, event: GangShrunk) -> None:
    """Some of it is to stop; whoever that is for comes first."""
    job, run = _live(state, event.job, event.attempt)
    if job is not None and run is not None:
        mine = (rank for rank in event.ranks if run.worker(rank) is not None)
        run.leaving |= {rank: event.reason for rank in mine if rank not in run.leaving}
        run.gainer = event.gainer
        if event.reason in FOR_OTHERS:
            spend(state, job.project, entry.recorded_at_us)
        settle(state, event.job, job)
    gains(state, entry, event.gainer)


def evicted(state: State, entry: Entry, event: GangEvicted) -> None:
    """It is to stop; whoever that is for comes first."""
    job, run = _live(state, event.job, event.attempt)
    if job is not None and run is not None:
        again = run.pause is not None and run.gainer == event.gainer
        run.evicted, run.gainer = event.reason, event.gainer
        run.evicted_us, run.way = entry.recorded_at_us, event.way
        if event.reason in FOR_OTHERS and not again:
            spend(state, job.project, entry.recorded_at_us)
        settle(state, event.job, job)
    gains(state, entry, event.gainer)


def overran(state: State, entry: Entry, event: AttemptOverran) -> None:
    """It has run for too long."""
    job, run = _live(state, event.job, event.attempt)
    if job is not None and run is not None:
        run.overran_us, run.cause = event.ran_us, entry.position
        settle(state, event.job, job)


def workers_released(state: State, entry: Entry, event: WorkersReleased) -> None:
    """The devices of some of it are free."""
    job, run = _live(state, event.job, event.attempt)
    if job is None or run is None:
        return
    gone = tuple(worker for worker in run.workers if worker.rank in event.ranks)
    before, run.workers = run.workers, tuple(w for w in run.workers if w.rank not in event.ranks)
    for rank in event.ranks:
        for known in (run.started, run.exits, run.leaving, run.grants):
            known.pop(rank, None)
    run.milli -= event.milli
    port_rules.give(state, event.job, gone)
    _give(state, run, gone)
    use(state, job, (before, run.workers), entry.recorded_at_us)
    settle(state, event.job, job)


def spend(state: State, project: str, at_us: int) -> None:
    """One job more was taken from the project and all that is above it."""
    for queue in path_up(state.queues, project):
        bound, per_us = queue.evictions_max, queue.evictions_per_us
        if bound > 0 and per_us > 0:
            before = state.evictions.get(queue.queue, [])
            state.evictions[queue.queue] = counted(before, at_us, bound, per_us)
            index_of(state).watch_moment(at_us + per_us)


def released(state: State, entry: Entry, event: GangReleased) -> None:
    """Its devices are free."""
    job, run = _live(state, event.job, event.attempt)
    if job is None or run is None:
        return
    evolve_pauses.give_back(state, job, run, entry.recorded_at_us)
    port_rules.give(state, event.job, run.workers)
    if event.again and event.reason == REQUEUED:
        job.requeues += 1
    elif event.again and is_counted(job, event.reason):
        job.tries += 1
    elif event.again and run.evicted not in (*FOR_OTHERS, *LEAVES):
        job.lost += 1
    job.reason, job.rests_until_us = event.reason, event.rests_until_us
    if event.rests_until_us:
        state.resting[event.job] = None
        index_of(state).watch_moment(event.rests_until_us)
    if event.outgrown:
        job.gang = job.gang.without(event.outgrown_role, event.outgrown)
    job.run, job.closing = None, not event.again
    settle(state, event.job, job)


def retries(state: State, _entry: Entry, event: JobRetries) -> None:
    """It has rested."""
    job = state.jobs.get(event.job)
    if job is not None:
        job.rests_until_us = 0
        state.resting.pop(event.job, None)
        settle(state, event.job, job)


def suspended(state: State, entry: Entry, event: SearchSuspended) -> None:
    """Where the search goes on, or that it rests."""
    before = state.searching
    rests = not event.job and not before.stale
    rests_until_us = entry.recorded_at_us + SEARCH_RESTS_S * SECOND_US if rests else 0
    state.searching = Searching(
        action=event.action,
        job=event.job,
        stale=before.stale and bool(event.job),
        rests_until_us=rests_until_us,
    )
    if rests:
        index_of(state).watch_moment(rests_until_us)


def parts_of(job: Job, workers: Workers) -> Iterator[tuple[int, bool]]:
    """What these workers hold: first what cannot be taken from the job, then the rest."""
    firm_milli = job.firm_milli(workers)
    yield firm_milli, True
    yield sum(share.milli for worker in workers for share in worker.devices) - firm_milli, False


def _live(state: State, job_id: str, attempt: int) -> tuple[Job | None, Run | None]:
    """The job, if this is its live attempt."""
    job = state.jobs.get(job_id)
    run = job.run if job is not None else None
    return (job, run) if run is not None and run.attempt == attempt else (None, None)


def _take(state: State, run: Run, workers: Workers) -> None:
    for worker in workers:
        node = state.nodes.get(worker.node)
        if node is not None:
            node.take(worker.devices, *run.takes(worker))


def _give(state: State, run: Run, workers: Workers) -> None:
    for worker in workers:
        node = state.nodes.get(worker.node)
        if node is not None:
            node.give(worker.devices, *run.takes(worker))
            evolve_nodes.forget_gone(node)


def use(state: State, job: Job, change: tuple[Workers, Workers], at_us: int) -> None:
    """The job's queue, and all above it, count what it has from now on instead of what it had."""
    more = 0
    for sign, workers in zip((-1, 1), change, strict=True):
        for milli, firm in parts_of(job, workers):
            more += sign * milli
            if milli:
                add_usage(state.queues, state.usage, job.project, sign * milli, firm=firm)
    metered(state, (job.project, job.user, more), at_us)


def gains(state: State, entry: Entry, job_id: str) -> None:
    """Others are being stopped for this job: it comes first."""
    job = state.jobs.get(job_id)
    if job is not None and job.waiting:
        by_us = entry.header.decided_at_us + state.setting("release_s") * SECOND_US
        job.room_by_us = min(job.room_by_us or by_us, by_us)
        settle(state, job_id, job)


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    GangPlaced: placed,
    GangGrown: grown,
    GangReserved: reserved,
    GangShrunk: shrunk,
    AttemptOverran: overran,
    WorkersReleased: workers_released,
    GangEvicted: evicted,
    GangReleased: released,
    JobRetries: retries,
    SearchSuspended: suspended,
}
