"""Which job is meant by a word: its id, its name, or the beginning of its id.

Rule: an id before a name, a name before the beginning of an id; of several jobs of one name a live
one, then the newest. A job that was refused stands in nobody's way, and of other projects' jobs
nothing is told.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.admission.derived import JobIds, index_of, name_of
from headrace.admission.hearing import Hearing
from headrace.admission.state import State
from headrace.events import Refusal

SHORT_FOR_MAX = 3  # jobs named when a word is short for several


def meant(hearing: Hearing, job: str, project: str) -> str | Refusal | None:
    """The id of the project's job that is meant; None when there is none."""
    if hearing.project_of(job) == project:
        return job
    index, new = index_of(hearing.state), hearing.admitted_of(project)
    return (
        next((each for each in reversed([*new]) if name_of(each) == job), None)
        or index.live_names.newest(project, job)
        or index.ended_names.newest(project, job)
        or short_for(index.live, job, project, new)
        or short_for(index.ended, job, project, ())
        or short_for(index.refused, job, project, ())
    )


def under_key(hearing: Hearing, key: str, project: str) -> str | None:
    """The id of the project's job that was submitted under this key: a live one, else the newest;
    None when none is known.
    """
    if new := hearing.admitted_under(project, key):
        return new
    state = hearing.state
    found = index_of(state).by_key.get((project, key), {})
    live = [job for job in found if job in state.live]
    return max(live or found, key=lambda job: (_requested_at(state, job), job), default=None)


def full_id(state: State, job: str, project: str) -> str | Refusal:
    """The id of the job that is meant; `job` itself when there is none."""
    return meant(Hearing(state), job, project) or job


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
    """No job of the project is known by this word."""
    rule = f"is not a job of project {project}{but}"
    return Refusal(field="job", value=job, rule=rule, unknown="job")


def _requested_at(state: State, job: str) -> int:
    known = state.live.get(job) or state.outcomes.get(job)
    return known.requested_at if known is not None else 0
