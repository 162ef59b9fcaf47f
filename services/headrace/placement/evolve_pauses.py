"""How pauses change placement's state: wanted, reached by each worker, devices left and booked anew.

Rule: total. What names a job, an attempt or a decision that is not (or no longer) there changes
nothing. Memory of a node is kept from when an image is to be made until the attempt has come back or
has gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry
from headrace.events.jobs import JobEligible
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.placement import evolve_gangs, evolve_nodes
from headrace.placement.derived import index_of, settle
from headrace.placement.end_rules import FOR_OTHERS
from headrace.placement.runs import RUNNING, Pause, Run
from headrace.placement.state import Job, State

Reported = AttemptLocked | AttemptPaused | AttemptResumed | AttemptPauseFailed


def wanted(state: State, entry: Entry, event: JobPausing) -> None:
    """Its people want it to leave its devices."""
    job = state.jobs.get(event.job)
    if job is not None and not job.pausing:
        job.pausing, job.pausing_at, job.room_by_us, job.reserved = True, entry.position, 0, None
        settle(state, event.job, job)


def unwanted(state: State, _entry: Entry, event: JobResuming) -> None:
    """Its people want it to go on; quota says when it may compete."""
    job = state.jobs.get(event.job)
    if job is not None:
        job.pausing, job.paused = False, ""
        settle(state, event.job, job)


def paused(state: State, _entry: Entry, event: JobPaused) -> None:
    """It competes no more."""
    job = state.jobs.get(event.job)
    if job is not None:
        job.eligible, job.reserved, job.room_by_us = False, None, 0
        job.paused = event.way if job.pausing else ""
        settle(state, event.job, job)


def competes(state: State, entry: Entry, event: JobEligible) -> None:
    """What is kept of it waits for its devices from now on."""
    job = state.jobs.get(event.job)
    run = job.run if job is not None else None
    if job is not None and run is not None and run.pause is not None and not run.pause.booked:
        run.pause.at_us = entry.recorded_at_us
        settle(state, event.job, job)


def gang_pausing(state: State, entry: Entry, event: GangPausing) -> None:
    """Every worker is to lock, or to move what it has on its devices to memory."""
    found = _run(state, event.job, event.attempt)
    if found is None:
        return
    job, run = found
    if run.pause is None and event.reason in FOR_OTHERS:
        evolve_gangs.spend(state, job.project, entry.recorded_at_us)
    before, run.gainer = run.pause, event.gainer or run.gainer
    run.pause = Pause(
        phase=event.phase,
        position=entry.position,
        at_us=before.at_us if before is not None else entry.recorded_at_us,
        reason=event.reason,
        gainer=run.gainer,
        image_bytes=event.image_bytes,
    )
    _keep(state, run, event.image_bytes, 1)
    settle(state, event.job, job)
    evolve_gangs.gains(state, entry, event.gainer)


def gang_paused(state: State, entry: Entry, event: GangPaused) -> None:
    """Its devices and its CPUs are free; its memory, and that of its images, is kept."""
    found = _run(state, event.job, event.attempt)
    if found is None or found[1].pause is None or not found[1].pause.booked:
        return
    job, run = found
    pause = found[1].pause
    _book(state, job, (run, -1), entry.recorded_at_us)
    _keep(state, run, _memories(run), 1)
    pause.booked, pause.at_us = False, entry.recorded_at_us
    job.room_by_us = 0
    settle(state, event.job, job)


def gang_resumed(state: State, entry: Entry, event: GangResumed) -> None:
    """It has devices of its nodes again."""
    found = _run(state, event.job, event.attempt)
    if found is None or found[1].pause is None or found[1].pause.booked:
        return
    job, run = found
    pause = found[1].pause
    _keep(state, run, _memories(run), -1)
    run.workers = event.workers
    _book(state, job, (run, 1), entry.recorded_at_us)
    run.rested_us += max(0, entry.recorded_at_us - pause.reached_us)
    run.since_us = entry.recorded_at_us
    run.gainer = ""
    run.pause = Pause(
        phase=RUNNING,
        position=entry.position,
        at_us=entry.recorded_at_us,
        reason=pause.reason,
        image_bytes=pause.image_bytes,
    )
    job.room_by_us, job.reserved = 0, None
    settle(state, event.job, job)


def reported(state: State, entry: Entry, event: Reported) -> None:
    """One worker does what is wanted of it, or cannot."""
    evolve_nodes.recorded(state, event.node, event.incarnation, event.report)
    found = _run(state, event.job, event.attempt)
    pause = found[1].pause if found is not None else None
    if found is None or pause is None or event.asked_at != pause.position:
        return
    job, run = found
    if not 0 <= event.rank < len(run.workers) or run.workers[event.rank].node != event.node:
        return
    run.cause = entry.position
    if isinstance(event, AttemptPauseFailed):
        pause.failed, pause.broken = event.message or "it could not", event.broken
    else:
        used_bytes = event.gpu_bytes if isinstance(event, AttemptLocked) else 0
        pause.reached[event.rank] = used_bytes
        pause.reached_us = entry.recorded_at_us
    if pause.phase == RUNNING and pause.is_reached(run):
        _keep(state, run, pause.image_bytes, -1)
        run.pause = None
    settle(state, event.job, job)


def give_back(state: State, job: Job, run: Run, at_us: int) -> None:
    """The attempt is released: all that it still has is free."""
    if run.booked:
        _book(state, job, (run, -1), at_us)
    else:
        _keep(state, run, _memories(run), -1)
    if run.pause is not None:
        _keep(state, run, run.pause.image_bytes, -1)
    for worker in run.workers:
        if worker.node in state.nodes:
            evolve_nodes.forget_gone(state.nodes[worker.node])


def _run(state: State, job_id: str, attempt: int) -> tuple[Job, Run] | None:
    """The live attempt of this number."""
    job = state.jobs.get(job_id)
    if job is None or job.run is None or job.run.attempt != attempt:
        return None
    return job, job.run


def _book(state: State, job: Job, change: tuple[Run, int], at_us: int) -> None:
    """Take (or give back) the devices, CPUs and memory of its workers."""
    run, sign = change
    for worker in run.workers:
        node = state.nodes.get(worker.node)
        if node is not None:
            book = node.take if sign > 0 else node.give
            book(worker.devices, *run.takes(worker))
    held = ((), run.workers) if sign > 0 else (run.workers, ())
    evolve_gangs.use(state, job, held, at_us)


def _memories(run: Run) -> tuple[int, ...]:
    return tuple(run.takes(worker)[1] for worker in run.workers)


def _keep(state: State, run: Run, amounts: tuple[int, ...], sign: int) -> None:
    """Keep (or free) so much of the memory of each worker's node."""
    for worker, amount_bytes in zip(run.workers, amounts, strict=False):
        node, machine = state.nodes.get(worker.node), state.machines.get(worker.node)
        if node is not None and machine is not None and amount_bytes:
            change = node.take if sign > 0 else node.give
            change((), 0, amount_bytes)
            machine.kept_bytes = max(0, machine.kept_bytes + sign * amount_bytes)
            index_of(state).changed_nodes[worker.node] = None


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    JobPausing: wanted,
    JobResuming: unwanted,
    JobPaused: paused,
    GangPausing: gang_pausing,
    GangPaused: gang_paused,
    GangResumed: gang_resumed,
    AttemptLocked: reported,
    AttemptPaused: reported,
    AttemptResumed: reported,
    AttemptPauseFailed: reported,
}
