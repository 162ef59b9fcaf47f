"""When a job can be cancelled.

Rule: whoever asks learns nothing about other projects' jobs.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.admission.derived import JobIds, index_of
from headrace.admission.hearing import Hearing
from headrace.admission.state import State
from headrace.events import Decision, Refusal
from headrace.events.jobs import JobCancelling, JobCancelRefused, JobCancelRequested

SHORT_FOR_MAX = 3  # jobs named when an id is short for several


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


def full_id(state: State, job: str, project: str) -> str | Refusal:
    """The id that `job` is short for; `job` itself when it is none or nothing's beginning."""
    known = state.live.get(job) or state.outcomes.get(job)
    if known is not None and known.project == project:
        return job
    return short_for(index_of(state).live, job, project, ()) or job


def short_for(ids: JobIds, job: str, project: str, others: Collection[str]) -> str | Refusal | None:
    """The one of these ids of the project, and of `others`, that `job` is the beginning of; None
    when none is.
    """
    first, known, behind = ids.beginning(project, job)
    more = [name for name in others if name.startswith(job)]
    found = behind - first + len(more)
    if found > 1:
        latest = sorted((*known[max(first, behind - SHORT_FOR_MAX) : behind], *more))
        rule = f"is short for {found} jobs: {', '.join(latest[-SHORT_FOR_MAX:])}"
        return Refusal(field="job", value=job, rule=rule, instead="more of its letters")
    if found:
        return more[0] if more else known[first]
    return None


def unknown(job: str, project: str, but: str = "") -> Refusal:
    """No job of the project is known by this id."""
    rule = f"is not a job of project {project}{but}"
    return Refusal(field="job", value=job, rule=rule, unknown="job")
