"""How a sweep or an array follows its tasks.

Rule: a group ends when its last task has; when too many tasks failed, the rest are cancelled.
"""

from __future__ import annotations

from headrace.events import Entry
from headrace.events.jobs import JobAdmitted, JobCancelling, JobFinished, JobStarted
from headrace.placement.state import Group, Job, State


def admitted(state: State, entry: Entry, event: JobAdmitted) -> None:
    """A group of tasks, which are admitted one by one after it."""
    state.groups[event.job] = Group(
        project=event.project,
        tasks=event.tasks,
        admitted_us=entry.recorded_at_us,
        stop_after_failures=event.stop_after_failures,
        traceparent=entry.header.traceparent,
    )


def task_admitted(state: State, job_id: str, job: Job) -> None:
    """One more task lives, unless its group is to end or has ended, as its cancellation may have
    crossed with this.
    """
    group = state.groups.get(job.group)
    if group is not None:
        group.live[job_id] = None
        group.admitted += 1
    reason = group.cancelling if group is not None else "cancelled" if job.group else ""
    if reason:
        job.cancelling, job.cancelled_at = reason, job.admitted_at


def task_begun(state: State, entry: Entry, event: JobStarted, job: Job) -> None:
    """The group counts as begun with its first task."""
    group = state.groups.get(job.group)
    if group is not None and not group.begun_us:
        group.begun_us = entry.recorded_at_us
        group.waited_us = event.waited_us


def cancelling(state: State, event: JobCancelling) -> None:
    """The group is to end: tasks admitted later are cancelled at once."""
    group = state.groups.get(event.job)
    if group is not None:
        group.cancelling, group.cancel_message = event.reason, event.message
        group.tasks = group.admitted  # no more are to come
        if not group.live:
            state.groups_due[event.job] = None


def task_finished(state: State, entry: Entry, event: JobFinished, job: Job) -> list[str]:
    """Count the task; the ids of the tasks to cancel because of it."""
    group = state.groups.get(job.group)
    if group is None:
        return []
    group.live.pop(event.job, None)
    group.ended_us = entry.recorded_at_us
    if event.outcome == "succeeded":
        group.succeeded += 1
    elif event.outcome == "failed":
        group.failed += 1
        if not group.first_failure:
            group.first_failure, group.exit_code = event.job, event.exit_code
    else:
        group.cancelled += 1
    if not group.live and group.admitted >= group.tasks:
        state.groups_due[job.group] = None
    if 0 < group.stop_after_failures <= group.failed and not group.cancelling:
        group.cancelling = "stop-after-failures"
        return list(group.live)
    return []
