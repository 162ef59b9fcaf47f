"""When a job can be cancelled.

Rule: whoever asks learns nothing about other projects' jobs.
"""

from __future__ import annotations

from headrace.admission.hearing import Hearing
from headrace.admission.state import State
from headrace.documents.nearest import nearest
from headrace.events import Decision, Refusal
from headrace.events.jobs import JobCancelling, JobCancelRefused, JobCancelRequested

COMPARED_MAX = 1_000  # of the project's live jobs, the latest, to find the one that was meant
SHORT_FOR_MAX = 3  # jobs named when an id is short for several


def cancel(hearing: Hearing, position: int, event: JobCancelRequested) -> Decision:
    """The job (or group) is to end; or there is nothing to cancel. Asked again, the same again."""
    del position
    state = hearing.state
    job = state.live.get(event.job)
    if job is not None and job.project == event.project:
        return JobCancelling(job=event.job, project=event.project, user=event.user)
    refusal = not_there(state, event.job, event.project)
    return JobCancelRefused(job=event.job, project=event.project, refusal=refusal)


def not_there(state: State, job: str, project: str) -> Refusal:
    """Why nothing can be done to a job that is no live one of the project."""
    ended = state.outcomes.get(job)
    if job not in state.live and ended is not None and ended.project == project:
        rule = f"has already ended: {ended.outcome}"
        return Refusal(field="job", value=job, rule=rule)
    return _unknown(state, job, project)


def full_id(state: State, job: str, project: str) -> str | Refusal:
    """The id that `job` is short for; `job` itself when it is none or nothing's beginning."""
    known = state.live.get(job) or state.outcomes.get(job)
    if known is not None and known.project == project:
        return job
    short_for = [name for name in _own(state, project) if name.startswith(job)]
    if len(short_for) > 1:
        some = ", ".join(short_for[:SHORT_FOR_MAX])
        rule = f"is short for {len(short_for)} jobs: {some}"
        return Refusal(field="job", value=job, rule=rule, instead="more of its letters")
    return short_for[0] if short_for else job


def _unknown(state: State, job: str, project: str) -> Refusal:
    near = nearest(job, _own(state, project)[-COMPARED_MAX:])
    return Refusal(
        field="job",
        value=job,
        rule=f"is not a job of project {project}",
        instead=f"did you mean {near}?" if near else "",
    )


def _own(state: State, project: str) -> list[str]:
    """The project's live jobs and groups, in order of admission."""
    return Hearing(state).jobs_of(project)
