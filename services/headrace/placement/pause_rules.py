"""Which way a job leaves its GPUs, and when its gang has left them.

Rule: a ladder. Where every node can, the processes stay and what they have on their GPUs moves to
memory that is booked first: all workers lock, then all move, then the devices are given back; one
that fails, or takes too long, takes the whole gang one rung down, to its own checkpoint signal and
its end, or to the end alone. What is kept is given up only for a new attempt, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.decider import Draft
from headrace.events import Decision
from headrace.events.gangs import Act, GangEvicted, Worker
from headrace.events.pauses import GangPaused, GangPausing, JobPaused
from headrace.placement.runs import LOCKED, PAUSED, RUNNING, Pause, Run, summed
from headrace.placement.state import Job, State

CHECKPOINT, SIGNAL, STOP, WAITING = "cuda-checkpoint", "signal", "stop", "waiting"
BY_ITS_PEOPLE = "paused"  # why an attempt leaves its devices when nobody else gets them
DROPPED, BROKEN = "image-dropped", "pause-broken"
LEAVES = (BY_ITS_PEOPLE, DROPPED, BROKEN)  # reasons of these rules for an attempt's end
_US = 1_000_000


def is_due(job: Job) -> bool:
    """Whether there is something to decide about a pause of this job."""
    run = job.run
    if run is None:
        return job.pausing and not job.paused
    pause = run.pause
    if pause is None:
        return job.pausing
    if pause.phase == PAUSED and not pause.booked:
        return job.pausing and not job.paused
    return bool(pause.failed) or pause.is_reached(run)


def decide_pause(state: State, job_id: str, job: Job) -> Iterator[Draft]:
    """The next step of a pause that is due."""
    run, pause = job.run, job.run.pause if job.run is not None else None
    if run is None:
        yield _draft(job, _paused(job_id, job, WAITING), job.pausing_at)
    elif pause is None:
        act = Act(rule=BY_ITS_PEOPLE)
        yield _draft(job, leave(state, job_id, job, BY_ITS_PEOPLE, act), job.pausing_at)
    elif pause.failed:
        yield _draft(job, _down(job_id, job, run, pause), run.cause)
    elif pause.phase == LOCKED:
        yield _draft(job, _move(state, job_id, job, run, pause), run.cause)
    elif pause.booked:
        yield from _left(job_id, job, run, pause)
    else:
        yield _draft(job, _paused(job_id, job, CHECKPOINT), job.pausing_at)


def leave(
    state: State, job_id: str, job: Job, reason: str, act: Act, *, gainer: str = ""
) -> Decision:
    """The gang is to leave its devices, on the highest rung that there is for it."""
    run = job.run
    assert run is not None  # who has devices has an attempt
    missing = missing_for_checkpoint(state, job, run)
    if missing:
        names = act.names | {"no_checkpoint": missing}
        lower = Act(rule=act.rule, numbers=act.numbers, names=names)
        return ended(job_id, job, run, reason, lower, gainer=gainer)
    return GangPausing(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        phase=LOCKED,
        reason=reason,
        gainer=gainer,
        act=act,
    )


def missing_for_checkpoint(state: State, job: Job, run: Run) -> str:
    """Why the processes of this attempt cannot be moved off their GPUs; empty when they can."""
    if len(run.started) < len(run.workers):
        return "it has not started"
    if run.exits or job.is_elastic:
        return "its workers come and go"
    if job.gang.contained:
        return "it runs in a container"
    if not run.milli:
        return "it has no GPU"
    for worker in run.workers:
        machine = state.machines.get(worker.node)
        if machine is None or "checkpoint" not in machine.said.pausing:
            return f"{worker.node} has no driver that can"
        if machine.silent:
            return f"{worker.node} is silent"
        asked = job.gang.by_role()[worker.role]
        shares_memory = asked.per_gpu_processes and len(worker.devices) > 1
        if shares_memory and "ipc" not in machine.said.pausing:
            return f"{worker.node} has no driver that can where processes share GPU memory"
    return ""


def ended(
    job_id: str, job: Job, run: Run, reason: str, act: Act, *, gainer: str = ""
) -> GangEvicted:
    """The attempt is to end: by the job's own checkpoint signal where it has one."""
    return GangEvicted(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        reason=reason,
        gainer=gainer,
        act=act,
        way=SIGNAL if job.checkpoint is not None and run.begun_us else STOP,
    )


def paused_by_end(job_id: str, job: Job, run: Run, worked_us: int) -> JobPaused:
    """The attempt of a job that is to pause has ended instead, after `worked_us` of work."""
    way = run.way or STOP
    said = {
        SIGNAL: "what it did since its own last checkpoint",
        STOP: f"all that attempt {run.attempt} did",
    }
    why = f" ({run.pause.failed})" if run.pause is not None and run.pause.failed else ""
    event = _paused(job_id, job, way)
    lost_us = 0 if way == SIGNAL else worked_us
    return JobPaused(
        job=event.job,
        project=event.project,
        way=way,
        attempt=run.attempt,
        lost=said.get(way, "") + why,
        lost_us=lost_us,
    )


def too_late(state: State, job_id: str, now_us: int) -> Draft | None:
    """A gang that takes too long to leave its devices goes one rung down; one that has waited too
    long for the devices of its node starts anew elsewhere.
    """
    job = state.jobs[job_id]
    run, due_us = job.run, deadline_us(state, job)
    if run is None or run.pause is None or due_us is None or now_us < due_us:
        return None
    if run.pause.booked:
        failed = f"not within {state.setting('pause_within_s')} s"
        return _draft(job, _down(job_id, job, run, run.pause, failed), run.cause)
    numbers = {"waited_us": now_us - run.pause.at_us}
    act = Act(rule=DROPPED, numbers=numbers, names={"lost": f"all that attempt {run.attempt} did"})
    event = ended(job_id, job, run, DROPPED, act)
    return _draft(job, event, run.position)


def deadline_us(state: State, job: Job) -> int | None:
    """When a pause, or the wait of what was kept, has taken too long; None when nothing waits."""
    run = job.run
    if run is None or run.pause is None or run.evicted:
        return None
    if run.pause.booked:
        return run.pause.at_us + state.setting("pause_within_s") * _US
    if job.waiting:
        return run.pause.at_us + state.setting("resume_elsewhere_after_s") * _US
    return None


def _move(state: State, job_id: str, job: Job, run: Run, pause: Pause) -> Decision:
    """All are locked: book memory for what they have on their GPUs, or go one rung down."""
    images = tuple(_image_bytes(state, run.workers[rank], used) for rank, used in _used(run, pause))
    wanted: dict[str, int] = {}
    for worker, image_bytes in zip(run.workers, images, strict=True):
        wanted[worker.node] = wanted.get(worker.node, 0) + image_bytes
    for name in sorted(wanted):
        node = state.nodes[name]
        free_bytes = node.memory_bytes - node.memory_used_bytes
        if wanted[name] > free_bytes:
            short = f"{name} has {free_bytes} bytes of memory free, of {wanted[name]} needed"
            return _down(job_id, job, run, pause, short)
    return GangPausing(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        phase=PAUSED,
        reason=pause.reason,
        image_bytes=images,
        act=Act(rule="all-locked", numbers={"image_bytes": sum(images)}),
    )


def _used(run: Run, pause: Pause) -> list[tuple[int, int]]:
    return [(worker.rank, pause.reached.get(worker.rank, 0)) for worker in run.workers]


def _image_bytes(state: State, worker: Worker, used_bytes: int) -> int:
    """What the worker has on its devices; its whole share where that is not known."""
    if used_bytes:
        return used_bytes
    memory = {d.device: d.memory_bytes for d in state.nodes[worker.node].devices}
    return sum(memory.get(s.device, 0) * s.milli // 1000 for s in worker.devices)


def _down(job_id: str, job: Job, run: Run, pause: Pause, failed: str = "") -> GangEvicted:
    """One rung down; a worker that is broken, or cannot come back, ends with its gang."""
    back = pause.phase == RUNNING
    reason = BROKEN if back else pause.reason
    names = {"failed": failed or pause.failed}
    if back or pause.broken:
        names["lost"] = f"all that attempt {run.attempt} did"
    act = Act(rule="one-rung-down", names=names)
    return ended(job_id, job, run, reason, act, gainer=pause.gainer)


def _left(job_id: str, job: Job, run: Run, pause: Pause) -> Iterator[Draft]:
    """All have left their devices: give them back."""
    event = GangPaused(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        way=CHECKPOINT,
        shares=summed(run.workers),
        milli=run.milli,
        held_us=max(0, pause.reached_us - run.since_us),
    )
    yield _draft(job, event, run.cause)
    if job.pausing:
        yield _draft(job, _paused(job_id, job, CHECKPOINT), job.pausing_at)


def _paused(job_id: str, job: Job, way: str) -> JobPaused:
    return JobPaused(job=job_id, project=job.project, way=way, attempt=job.attempt)


def _draft(job: Job, event: Decision, causation: int) -> Draft:
    return Draft(event=event, causation=causation, traceparent=job.traceparent)
