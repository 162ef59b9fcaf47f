"""`/v1/jobs/{job}/trials`: a sweep as one table, of what its trials were given and what they reported."""

from __future__ import annotations

from collections.abc import Mapping

from litestar import get

from headrace.client.model import ENDED
from headrace.client.sweep_model import SweepRow, TrialRow
from headrace.events.asked import Objective
from headrace.events.jobs import JobRequested
from headrace.gateway.caller import By, may
from headrace.gateway.errors import NotFound
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import JobName
from headrace.gateway.projection import Job
from headrace.runtime.reader import entry_of


@get("/jobs/{job:str}/trials", summary="The trials of a sweep", opt=may("read", "job"))
async def job_trials(gateway: Gate, by: By, job: JobName) -> SweepRow:
    """Their parameters, what they reported and how they went. `job` is an id, a name or a prefix."""
    found = await by.job(job)
    if not found.tasks:
        raise NotFound(f"{found.job} is no sweep and no array (headrace describe {found.job})")
    stored = await gateway.stream(found.job, limit=1)
    asked = entry_of(stored[0]).event if stored else None
    trials = asked.trials if isinstance(asked, JobRequested) else ()
    rows = [_row(gateway, by, found, index, params) for index, params in enumerate(trials)]
    objective = asked.objective if isinstance(asked, JobRequested) else None
    return SweepRow(
        job=found.job,
        state=gateway.row(found).state,
        trials=rows,
        metric=objective.metric if objective else "",
        goal=objective.goal if objective else "",
        best=found.best.partition(" ")[0],
        unreported=_is_unreported(rows, objective),
    )


def _row(gateway: Gateway, by: By, group: Job, index: int, params: Mapping[str, str]) -> TrialRow:
    name = f"{group.job}/{index}"
    job = gateway.projection.job(name)
    if job is None:
        return TrialRow(trial=name, state="submitted", params=dict(params))
    row = by.sight.job_row(gateway.row(job))
    heard = gateway.progress.of(name, job.attempt) if not job.ended_at_us else {}
    now = next((said for _, said in sorted(heard.items()) if said), {})
    return TrialRow(
        trial=name,
        state=row.state,
        params=dict(params),
        reported=now or job.reported,
        ran_us=row.ran_us,
        exit_code=row.exit_code,
        why=row.why,
    )


def _is_unreported(rows: list[TrialRow], objective: Objective | None) -> bool:
    """Whether trials that ended reported values, and none of them the one they are compared by."""
    ended = [row.reported for row in rows if row.state in ENDED and row.reported]
    return objective is not None and bool(ended) and not any(objective.metric in s for s in ended)
