"""How sweeps and arrays follow the log: what a group is told, its tasks are, one by one.

Rule: total; what is still to be said to a task is dropped when it was said otherwise meanwhile, or
the task has ended.
"""

from __future__ import annotations

from typing import Any

from headrace.admission.derived import index_of
from headrace.admission.state import Group, Spread, State, Stop
from headrace.events import Entry, jobs, pauses


def task_admitted(state: State, entry: Entry, event: jobs.JobAdmitted) -> None:
    """One more task of a group; of one that is to end, it is cancelled."""
    group = state.groups.get(event.group)
    if group is None:  # it ended meanwhile
        stop = Stop(causation=entry.position, reason="group-ended")
        state.stopping.setdefault(event.group, stop).left[event.job] = None
        return
    group.live[event.job] = None
    group.admitted = event.index + 1
    if group.admitted >= group.event.tasks:
        state.expanding.pop(event.group, None)
    if state.live[event.group].cancelling:
        stop = Stop(causation=entry.position)
        state.stopping.setdefault(event.group, stop).left[event.job] = None


def pausing(state: State, entry: Entry, event: pauses.JobPausing | pauses.JobResuming) -> None:
    """What a group is told, its tasks are; while it is paused no more of them are admitted."""
    job, pausing = state.live.get(event.job), isinstance(event, pauses.JobPausing)
    if job is None:
        return
    job.pausing = pausing
    index_of(state).paused(event.job, job)
    _told(state.spreading, job.group, event.job)
    group = state.groups.get(event.job)
    if group is None:
        return
    if pausing or job.cancelling or group.admitted >= group.event.tasks:
        state.expanding.pop(event.job, None)
    else:
        state.expanding[event.job] = None
    tasks = ((task, state.live[task]) for task in group.live)
    left = {task: None for task, of in tasks if of.pausing != pausing and not of.cancelling}
    state.spreading.pop(event.job, None)
    if left:
        state.spreading[event.job] = Spread(
            causation=entry.header.causation, pausing=pausing, user=event.user, left=left
        )


def stop_all(state: State, group_id: str, stop: Stop, group: Group) -> None:
    """Every task of the group that lives and was not told yet is to be cancelled; to end at once those
    are told too that were asked to before.
    """
    told = (task for task in group.live if stop.now or not state.live[task].cancelling)
    stop.left = dict.fromkeys(told)
    if stop.left:
        state.stopping[group_id] = stop


def over(state: State, group_id: str, task: str) -> None:
    """The task was cancelled or has ended: there is nothing more to tell it."""
    _told(state.stopping, group_id, task)
    _told(state.spreading, group_id, task)


def _told(lines: dict[str, Any], group_id: str, task: str) -> None:
    """There is one fewer of this group to tell."""
    line = lines.get(group_id)
    if line is not None:
        line.left.pop(task, None)
        if not line.left:
            del lines[group_id]
