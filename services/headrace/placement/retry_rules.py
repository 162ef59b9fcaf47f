"""Who has rested after an attempt that ended, and competes for GPUs again.

Rule: a rest ends by a decision, at the moment that the release of the attempt named: until then the
job waits for nothing else, and nothing sleeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.decider import Draft
from headrace.events.jobs import JobRetries
from headrace.placement.state import State


def decide_rests(state: State, now_us: int, limit: int) -> Iterator[Draft]:
    """Who has rested and competes again, by id."""
    left = sorted(state.resting.keys() - state.due.keys())
    over = (job_id for job_id in left if state.jobs[job_id].rests_until_us <= now_us)
    for job_id in islice(over, limit):
        job = state.jobs[job_id]
        event = JobRetries(job=job_id, project=job.project, tries=job.tries)
        yield Draft(event=event, traceparent=job.traceparent)
