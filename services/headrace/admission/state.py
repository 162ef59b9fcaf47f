"""What admission knows: undecided requests, live jobs and groups, names that exist.

Rule: only live things are kept, and a bounded table of how recent jobs ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.events import Entry, Event, access, jobs, nodes, platform, queues

SETTINGS = {"outcomes_max": 10_000, "drafts_max": 400, "jobs_per_project_max": 100_000}

Asked = (
    jobs.JobRequested
    | jobs.JobCancelRequested
    | access.SecretSetRequested
    | access.PublisherRequested
    | access.ProjectEraseRequested
)


class Pending(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A request that was recorded and not yet decided on."""

    event: Asked
    actor: str = ""
    traceparent: str = ""


class Live(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job, or a task of a group, that has not ended."""

    project: str
    group: str = ""
    traceparent: str = ""
    cancelling: bool = False


class Group(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep or array. `expanded` of its `tasks` have been admitted; `live` have not ended."""

    event: jobs.JobAdmitted
    traceparent: str = ""
    expanded: int = 0
    live: dict[str, None] = {}
    cancelling: str = ""  # by whom, once somebody cancelled it
    uncancelled: dict[str, None] = {}  # live tasks that were not named yet


class Capacity(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one node offers: device models and sizes, cores, memory."""

    devices: tuple[nodes.Device, ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0


class State(msgspec.Struct, kw_only=True, omit_defaults=True):
    """All of it."""

    settings: dict[str, int] = {}
    pending: dict[int, Pending] = {}
    queues: dict[str, queues.Queue] = {}
    live: dict[str, Live] = {}
    live_of: dict[str, int] = {}  # by project
    groups: dict[str, Group] = {}
    unfinished: dict[str, None] = {}  # groups with tasks to admit or to cancel
    outcomes: dict[str, str] = {}
    nodes: dict[str, Capacity] = {}
    secrets: dict[str, dict[str, str]] = {}
    publishers: dict[str, dict[str, str]] = {}
    erased: dict[str, int] = {}

    def setting(self, name: str) -> int:
        """A number of the leader's settings, as the log has it."""
        return self.settings.get(name, SETTINGS[name])


def evolve(state: State, entry: Entry) -> None:
    """Fold one entry. Total: what does not fit is ignored."""
    event = entry.event
    if isinstance(event, Asked):
        state.pending[entry.position] = Pending(
            event=event, actor=entry.header.actor, traceparent=entry.header.traceparent
        )
        return
    state.pending.pop(entry.header.causation, None)
    _EVOLVE.get(type(event), _ignore)(state, entry, event)


def _ignore(_state: State, _entry: Entry, _event: Event) -> None:
    """A refusal: what it answers is not pending any more, and that is all."""


def _admitted(state: State, entry: Entry, event: jobs.JobAdmitted) -> None:
    live = Live(project=event.project, group=event.group, traceparent=entry.header.traceparent)
    state.live[event.job] = live
    state.live_of[event.project] = state.live_of.get(event.project, 0) + 1
    if event.tasks:
        state.groups[event.job] = Group(event=event, traceparent=live.traceparent)
        state.unfinished[event.job] = None
    group = state.groups.get(event.group)
    if group is not None:
        group.expanded += 1
        group.live[event.job] = None
        if group.cancelling:
            group.uncancelled[event.job] = None
        _settle(state, event.group, group)


def _cancelling(state: State, entry: Entry, event: jobs.JobCancelling) -> None:
    job = state.live.get(event.job)
    if job is not None:
        job.cancelling = True
        task_of = state.groups.get(job.group)
        if task_of is not None:
            task_of.uncancelled.pop(event.job, None)
            _settle(state, job.group, task_of)
    group = state.groups.get(event.job)
    if group is not None:
        group.cancelling = entry.header.actor or event.user or "someone"
        group.uncancelled = {task: None for task in group.live if not state.live[task].cancelling}
        group.expanded = group.event.tasks  # what was not admitted yet never will be
        state.unfinished[event.job] = None
        _settle(state, event.job, group)


def _settle(state: State, group_id: str, group: Group) -> None:
    if group.expanded >= group.event.tasks and not group.uncancelled:
        state.unfinished.pop(group_id, None)


def _finished(state: State, _entry: Entry, event: jobs.JobFinished) -> None:
    job = state.live.pop(event.job, None)
    if job is None:
        return
    count = state.live_of.get(job.project, 1) - 1
    if count:
        state.live_of[job.project] = count
    else:
        state.live_of.pop(job.project, None)
    group = state.groups.get(job.group)
    if group is not None:
        group.live.pop(event.job, None)
        group.uncancelled.pop(event.job, None)
        _settle(state, job.group, group)
    if state.groups.pop(event.job, None) is not None:
        state.unfinished.pop(event.job, None)
    state.outcomes[event.job] = event.outcome
    if len(state.outcomes) > state.setting("outcomes_max"):
        del state.outcomes[next(iter(state.outcomes))]


def _queue(state: State, _entry: Entry, event: queues.QueueConfigured) -> None:
    state.queues[event.name] = event.queue


def _node(state: State, _entry: Entry, event: nodes.NodeJoined) -> None:
    state.nodes[event.node] = Capacity(
        devices=event.devices, cpu_milli=event.cpu_milli, memory_bytes=event.memory_bytes
    )


def _secret(state: State, _entry: Entry, event: access.SecretSet) -> None:
    state.secrets.setdefault(event.project, {})[event.name] = event.version


def _publisher(state: State, _entry: Entry, event: access.PublisherCreated) -> None:
    state.publishers.setdefault(event.project, {})[event.name] = event.public_key


def _erased(state: State, entry: Entry, event: access.ProjectErased) -> None:
    state.erased[event.project] = entry.position
    state.secrets.pop(event.project, None)


def _led(state: State, _entry: Entry, event: platform.ServiceLed) -> None:
    if event.service == "admission":
        state.settings = dict(event.settings)


_EVOLVE: dict[type[Event], Callable[[State, Entry, Any], None]] = {
    jobs.JobAdmitted: _admitted,
    jobs.JobCancelling: _cancelling,
    jobs.JobFinished: _finished,
    queues.QueueConfigured: _queue,
    nodes.NodeJoined: _node,
    access.SecretSet: _secret,
    access.PublisherCreated: _publisher,
    access.ProjectErased: _erased,
    platform.ServiceLed: _led,
}

LISTENS_TO: tuple[type[Event], ...] = (
    jobs.JobRequested,
    jobs.JobCancelRequested,
    jobs.JobRefused,
    jobs.JobCancelRefused,
    access.SecretSetRequested,
    access.SecretRefused,
    access.PublisherRequested,
    access.PublisherRefused,
    access.ProjectEraseRequested,
    access.ProjectEraseRefused,
    *_EVOLVE,
)
