"""What of a remembered moment still matters when it comes.

Rule: pure. Moments are remembered beside the state and never taken back.
"""

from __future__ import annotations

from headrace.placement.runs import Run
from headrace.placement.state import Job, State


def ticks(state: State, due_us: int, job_id: str, attempt: int) -> bool:
    """Whether that is still when the attempt must end: while it is paused its time stands still."""
    job = state.jobs.get(job_id)
    run = job.run if job is not None else None
    if job is None or run is None or run.attempt != attempt or run.evicted or run.gone:
        return False
    return run.booked and due_us == ends_us(job, run)


def ends_us(job: Job, run: Run) -> int:
    """When the attempt has run as long as it may."""
    return run.begun_us + run.rested_us + job.max_duration_us


def matters(state: State, job_id: str, attempt: int) -> bool:
    """Whether a moment is still of anybody: one of no job always is."""
    job = state.jobs.get(job_id)
    if job is None:
        return not job_id
    return attempt == (job.run.attempt if job.run is not None else 0)
