"""Which jobs a job waits for, and what comes of one whose wait can never end.

Rule: what is already so is not waited for, so every job that an admitted one waits for is live when
it is admitted, and its end comes later in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.admission.cancel_rules import short_for, unknown
from headrace.admission.derived import index_of
from headrace.admission.hearing import Hearing
from headrace.admission.state import Ended, State
from headrace.decider import Draft
from headrace.events import Refusal
from headrace.events.asked import Dependency
from headrace.events.jobs import JobCancelling, JobRequested

DEPENDENCY = "dependency"  # why a job ends that waited for what did not come


def awaited(hearing: Hearing, event: JobRequested) -> tuple[Dependency, ...] | Refusal:
    """What the job still has to wait for; a refusal when that is unknown or cannot come any more."""
    found: dict[str, Dependency] = {}
    for i, asked in enumerate(event.after):
        job = _full_id(hearing, asked.job, event.project)
        if isinstance(job, Refusal):
            return _at(i, job)
        ended = hearing.state.outcomes.get(job)
        if ended is None:
            before = found.get(job)
            if before is not None and before.state != asked.state:
                rule = f"is {job}, which is to end as {before.state} too"
                return _at(i, Refusal(field="job", value=asked.job, rule=rule))
            found[job] = Dependency(job=job, state=asked.state)
        elif not asked.is_met_by(ended.outcome):
            return _at(i, Refusal(field="job", value=asked.job, rule=unmet(job, asked, ended)))
    return tuple(found.values())


def unmet(job: str, wanted: Dependency, ended: Ended) -> str:
    """Why the wait for this job is in vain."""
    return f"{job} was {wanted.in_words} and has ended as {ended.outcome}"


def decide_unmet(state: State, hearing: Hearing) -> Iterator[Draft]:
    """The ends of jobs that wait for what can never come, first those that knew first."""
    for job_id, why in sorted(state.unmet.items(), key=lambda of: (of[1].position, of[0])):
        job = state.live[job_id]
        if hearing.is_ending(job_id):
            continue
        yield Draft(
            event=JobCancelling(
                job=job_id, project=job.project, reason=DEPENDENCY, message=why.message
            ),
            causation=why.position,
            traceparent=job.traceparent,
        )


def _full_id(hearing: Hearing, job: str, project: str) -> str | Refusal:
    """The project's job of this id, or the one it is short for: a live one, else one that ended."""
    if hearing.project_of(job) == project:
        return job
    index = index_of(hearing.state)
    return (
        short_for(index.live, job, project, hearing.admitted_of(project))
        or short_for(index.ended, job, project, ())
        or unknown(job, project, ", or ended long ago")
    )


def _at(index: int, refusal: Refusal) -> Refusal:
    return msgspec.structs.replace(refusal, field=f"after[{index}].job")
