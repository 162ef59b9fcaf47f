"""How admission follows who waits for whom.

Rule: total. A task waits with its group, and ends with it.
"""

from __future__ import annotations

from headrace.admission.dependency_rules import unmet
from headrace.admission.state import Live, State, Unmet
from headrace.events import Entry
from headrace.events.asked import Dependency
from headrace.events.jobs import JobAdmitted, JobFinished


def waits(state: State, event: JobAdmitted) -> None:
    """The job was admitted and waits for others."""
    if event.group:
        return
    for wanted in event.after:
        state.awaited.setdefault(wanted.job, {})[event.job] = wanted.state


def over(state: State, job_id: str, job: Live) -> None:
    """The job waits for nothing more: it is to end, or has ended."""
    state.unmet.pop(job_id, None)
    for wanted in job.after:
        waiting = state.awaited.get(wanted.job)
        if waiting is not None:
            waiting.pop(job_id, None)
            if not waiting:
                del state.awaited[wanted.job]


def ended(state: State, entry: Entry, event: JobFinished) -> None:
    """Whoever waited for another end of this job waits in vain."""
    for job_id, wanted_state in state.awaited.pop(event.job, {}).items():
        wanted = Dependency(job=event.job, state=wanted_state)
        if not wanted.is_met_by(event.outcome):
            message = unmet(event.job, wanted, state.outcomes[event.job])
            state.unmet.setdefault(job_id, Unmet(position=entry.position, message=message))
