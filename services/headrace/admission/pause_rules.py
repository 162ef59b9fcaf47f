"""When a job can be paused, and when resumed.

Rule: whoever asks learns nothing about other projects' jobs. Asked again, the same answer again. A
sweep or an array is paused with all of its tasks, and resumed with those that are.
"""

from __future__ import annotations

from headrace.admission.cancel_rules import not_there
from headrace.admission.hearing import Hearing
from headrace.events import Decision, Refusal
from headrace.events.pauses import (
    JobPauseRefused,
    JobPauseRequested,
    JobPausing,
    JobResumeRefused,
    JobResumeRequested,
    JobResuming,
)


def pause(hearing: Hearing, position: int, event: JobPauseRequested) -> Decision:
    """The job is to leave its GPUs; or there is none that could."""
    del position
    refusal = _refusal(hearing, event.job, event.project)
    if refusal is None and hearing.is_ending(event.job):
        refusal = Refusal(field="job", value=event.job, rule="is about to end")
    if refusal is not None:
        return JobPauseRefused(job=event.job, project=event.project, refusal=refusal)
    return JobPausing(job=event.job, project=event.project, user=event.user)


def resume(hearing: Hearing, position: int, event: JobResumeRequested) -> Decision:
    """The job competes again; or it was not paused."""
    del position
    refusal = _refusal(hearing, event.job, event.project)
    if refusal is None and not hearing.is_any_pausing(event.job):
        refusal = Refusal(field="job", value=event.job, rule="is not paused")
    if refusal is not None:
        return JobResumeRefused(job=event.job, project=event.project, refusal=refusal)
    return JobResuming(job=event.job, project=event.project, user=event.user)


def _refusal(hearing: Hearing, job_id: str, project: str) -> Refusal | None:
    job = hearing.state.live.get(job_id)
    if job is None or job.project != project:
        return not_there(hearing.state, job_id, project)
    return None
