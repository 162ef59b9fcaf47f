"""Who may enter a running job that somebody else submitted.

Rule: it is on record before anybody is let in.
"""

from __future__ import annotations

from headrace.admission.hearing import Hearing
from headrace.events import Decision, Refusal
from headrace.events.jobs import JobEntered, JobEnterRefused, JobEnterRequested


def enter(hearing: Hearing, position: int, event: JobEnterRequested) -> Decision:
    """The job lives, in this project, so there is a way in; or there is none."""
    del position
    job = hearing.state.live.get(event.job)
    if job is None or job.project != event.project:
        rule = f"is not a job of project {event.project} that runs"
        return JobEnterRefused(
            job=event.job,
            project=event.project,
            user=event.user,
            refusal=Refusal(field="job", value=event.job, rule=rule),
        )
    return JobEntered(
        job=event.job,
        project=event.project,
        user=event.user,
        way=event.way,
        rank=event.rank,
        what=event.what,
    )
