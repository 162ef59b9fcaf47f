"""When a job can be cancelled.

Rule: whoever asks learns nothing about other projects' jobs.
"""

from __future__ import annotations

from headrace.admission.hearing import Hearing
from headrace.admission.naming_rules import unknown
from headrace.admission.state import State
from headrace.events import Decision, Refusal
from headrace.events.jobs import JobCancelling, JobCancelRefused, JobCancelRequested


def cancel(hearing: Hearing, position: int, event: JobCancelRequested) -> Decision:
    """The job (or group) is to end; or there is nothing to cancel. Asked again, the same again."""
    del position
    state = hearing.state
    job = state.live.get(event.job)
    if job is not None and job.project == event.project:
        return JobCancelling(job=event.job, project=event.project, user=event.user, now=event.now)
    refusal = not_there(state, event.job, event.project)
    return JobCancelRefused(job=event.job, project=event.project, refusal=refusal)


def not_there(state: State, job: str, project: str) -> Refusal:
    """Why nothing can be done to a job that is no live one of the project."""
    ended = state.outcomes.get(job)
    if job not in state.live and ended is not None and ended.project == project:
        rule = f"has already ended: {ended.outcome}"
        return Refusal(field="job", value=job, rule=rule)
    return unknown(job, project)
