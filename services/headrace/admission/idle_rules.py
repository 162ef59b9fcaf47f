"""When a workspace that nobody uses is warned of, and when it ends.

Rule: judged on what was seen of it and on nothing else, once for each time that it was seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.admission.hearing import Hearing
from headrace.admission.state import State
from headrace.decider import Draft
from headrace.events.jobs import JobCancelling
from headrace.events.workspaces import WorkspaceSeen, WorkspaceWarned, stage_of

IDLE = "idle"  # why a workspace ends that nobody used

SECOND_US, MINUTE_US = 1_000_000, 60_000_000


def decide_idle(state: State, hearing: Hearing) -> Iterator[Draft]:
    """A warning, or the end, of each workspace that was seen unused."""
    for job_id, unused in sorted(state.unused.items(), key=lambda of: (of[1].position, of[0])):
        job = state.live[job_id]
        if unused.judged or hearing.is_ending(job_id):
            continue
        event: WorkspaceWarned | JobCancelling = _warned(unused.seen, job.idle_us)
        if unused.seen.unused_us >= job.idle_us:
            message = _for_how_long(unused.seen)
            event = JobCancelling(job=job_id, project=job.project, reason=IDLE, message=message)
        yield Draft(event=event, causation=unused.position, traceparent=job.traceparent)


def is_unused(seen: WorkspaceSeen, idle_us: int) -> bool:
    """Whether there is anything to say to this."""
    return idle_us > 0 and stage_of(seen.unused_us, idle_us) > 0


def _warned(seen: WorkspaceSeen, idle_us: int) -> WorkspaceWarned:
    left_us = max(0, idle_us - seen.unused_us)
    message = f"{_for_how_long(seen)}; it ends in {_words(left_us)} unless it is used"
    return WorkspaceWarned(
        job=seen.job,
        project=seen.project,
        unused_us=seen.unused_us,
        idle_us=idle_us,
        ends_at_us=seen.at_us + left_us,
        message=message,
    )


def _for_how_long(seen: WorkspaceSeen) -> str:
    per_cent = f"{seen.busy_permille // 10}.{seen.busy_permille % 10} %"
    gpus = f", its GPUs at most {per_cent} busy" if seen.busy_permille else ""
    return f"not used for {_words(seen.unused_us)}{gpus}"


def _words(duration_us: int) -> str:
    if duration_us >= 2 * MINUTE_US:
        return f"{duration_us // MINUTE_US} minutes"
    return f"{duration_us // SECOND_US} seconds"
