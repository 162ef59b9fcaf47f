"""Which jobs a job waits for, and what comes of one whose wait can never end.

Rule: what is already so is not waited for, so every job that an admitted one waits for is live when
it is admitted, and its end comes later in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.admission.hearing import Hearing
from headrace.admission.naming_rules import meant, under_key, unknown
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
        job = _id_of(hearing, asked, event.project)
        if isinstance(job, Refusal):
            return _at(i, job)
        ended = hearing.state.outcomes.get(job)
        if ended is None:
            before = found.get(job)
            if before is not None and before.state != asked.state:
                rule = f"is {job}, which is to end as {before.state} too"
                return _at(i, Refusal(field=_field(asked), value=asked.key or asked.job, rule=rule))
            found[job] = Dependency(job=job, state=asked.state)
        elif not asked.is_met_by(ended.outcome):
            rule = unmet(job, asked, ended)
            return _at(i, Refusal(field=_field(asked), value=asked.key or asked.job, rule=rule))
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


def _id_of(hearing: Hearing, asked: Dependency, project: str) -> str | Refusal:
    """The project's job that is named."""
    if asked.key:
        rule = f"no job of project {project} is known that was submitted under this key"
        instead = "submit that job first, or name it by its id"
        none = Refusal(field="key", value=asked.key, rule=rule, instead=instead)
        return under_key(hearing, asked.key, project) or none
    return meant(hearing, asked.job, project) or unknown(asked.job, project, ", or ended long ago")


def _field(asked: Dependency) -> str:
    return "key" if asked.key else "job"


def _at(index: int, refusal: Refusal) -> Refusal:
    return msgspec.structs.replace(refusal, field=f"after[{index}].{refusal.field}")
