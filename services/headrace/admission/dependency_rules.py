"""Which jobs a job waits for, and what comes of one whose wait can never end.

Rule: what is already so is not waited for, so every job that an admitted one waits for is live when
it is admitted, and its end comes later in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.admission.cancel_rules import SHORT_FOR_MAX
from headrace.admission.hearing import Hearing
from headrace.admission.state import Ended, State
from headrace.decider import Draft
from headrace.documents.nearest import nearest
from headrace.events import Refusal
from headrace.events.asked import Dependency
from headrace.events.jobs import JobCancelling, JobRequested

DEPENDENCY = "dependency"  # why a job ends that waited for what did not come
COMPARED_MAX = 1_000  # of the project's jobs, the latest, to find the one that was meant


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
    live, ended = hearing.jobs_of(project), _ended(hearing.state, project)
    for known in (live, ended):
        short_for = [name for name in known if name.startswith(job)]
        if len(short_for) > 1:
            some = ", ".join(sorted(short_for)[-SHORT_FOR_MAX:])
            rule = f"is short for {len(short_for)} jobs: {some}"
            return Refusal(field="job", value=job, rule=rule, instead="more of its letters")
        if short_for:
            return short_for[0]
    near = nearest(job, [*ended, *live][-COMPARED_MAX:])
    rule = f"is not a job of project {project}, or ended long ago"
    return Refusal(
        field="job", value=job, rule=rule, instead=f"did you mean {near}?" if near else ""
    )


def _ended(state: State, project: str) -> list[str]:
    return [name for name, ended in state.outcomes.items() if ended.project == project]


def _at(index: int, refusal: Refusal) -> Refusal:
    return Refusal(
        field=f"after[{index}].job",
        value=refusal.value,
        rule=refusal.rule,
        instead=refusal.instead,
    )
