"""How quota's state follows the log, event by event.

Rule: total: what names an unknown job changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from headrace.events import Entry
from headrace.events.asked import Gang
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished, JobHeld
from headrace.events.nodes import NodeJoined
from headrace.events.pauses import JobPaused, JobPausing, JobResuming
from headrace.events.platform import ServiceLed
from headrace.events.queues import (
    QueueApplyRequested,
    QueueConfigured,
    QueueDeleted,
    QueueDeleteRequested,
    QueueRefused,
    SharesDivided,
)
from headrace.quota import usage_rules
from headrace.quota.state import HELD_GROUP, HELD_QUOTA, Entrant, Group, State
from headrace.scheduling.tree import add_usage, asked_milli, usage_of


def evolve(state: State, entry: Entry) -> None:
    """Fold one entry."""
    state.__dict__["told"] = None
    if type(entry.event) not in usage_rules.ON:  # from which only shares follow
        state.__dict__["idle"] = False
    _ON[type(entry.event)](state, entry, entry.event)


def _led(state: State, entry: Entry, event: ServiceLed) -> None:
    if event.service == "quota":
        state.settings = dict(event.settings)
    usage_rules.led(state, entry, event)


def _asked(state: State, entry: Entry, event: QueueApplyRequested | QueueDeleteRequested) -> None:
    state.asked[entry.position] = event


def _refused(state: State, entry: Entry, _event: QueueRefused) -> None:
    state.asked.pop(entry.header.causation, None)


def _configured(state: State, entry: Entry, event: QueueConfigured) -> None:
    state.asked.pop(entry.header.causation, None)
    if state.queues.get(event.name) == event.queue:
        return
    state.configured[event.name] = entry.position
    state.queues[event.name] = event.queue
    state.deleted.pop(event.name, None)
    _regrown(state, entry)


def _deleted(state: State, entry: Entry, event: QueueDeleted) -> None:
    state.asked.pop(entry.header.causation, None)
    if state.queues.pop(event.name, None) is None:
        return
    state.configured.pop(event.name, None)
    state.deleted[event.name] = None
    _regrown(state, entry)


def _regrown(state: State, entry: Entry) -> None:
    """The tree is another one from here on."""
    holders = (e for e in state.jobs.values() if e.firm and e.eligible)
    state.firm = usage_of(state.queues, [(e.project, e.milli, True) for e in holders])
    usage_rules.remetered(state, entry.recorded_at_us)
    never, state.never = state.never, {}
    for job_id in never:
        _arrives(state, job_id, state.jobs[job_id])
    state.changed = True


def _joined(state: State, _entry: Entry, event: NodeJoined) -> None:
    milli = 1000 * sum(1 for device in event.devices if device.healthy)
    models = Counter(device.model for device in event.devices if device.healthy)
    state.models[event.node] = {model: 1000 * models[model] for model in sorted(models)}
    if state.capacity.get(event.node) != milli:
        state.capacity[event.node] = milli
        state.changed = True


def _admitted(state: State, entry: Entry, event: JobAdmitted) -> None:
    if event.job in state.jobs or event.job in state.groups:
        return
    if not event.group:
        state.live_of[event.project] = state.live_of.get(event.project, 0) + 1
    if event.tasks:
        state.groups[event.job] = Group(
            parallel=event.tasks_parallel, tasks=event.tasks, project=event.project
        )
        return
    entrant = Entrant(
        project=event.project,
        milli=asked_milli(event.gang),
        kinds=_kinds_of(event.gang),
        pools=event.gang.pools,
        admitted_at=entry.position,
        firm=not event.preemptible or event.protected_minimum,
        group=event.group,
        traceparent=entry.header.traceparent,
        after={wanted.job: wanted for wanted in event.after},
    )
    for job_id in entrant.after:
        state.awaited.setdefault(job_id, {})[event.job] = None
    state.jobs[event.job] = entrant
    _arrives(state, event.job, entrant)
    _want(state, entrant, entrant.milli)


def _kinds_of(gang: Gang) -> tuple[tuple[tuple[str, int], ...], ...]:
    """None of a job that asks for a GPU's memory: how much of one that is depends on the GPU."""
    parts = gang.by_role().values()
    if any(part.gpu_memory_bytes for part in parts):
        return ()
    return tuple(
        tuple((kind.model, kind.milli * part.nodes) for kind in part.accelerators)
        for part in parts
        if part.accelerators
    )


def _eligible(state: State, _entry: Entry, event: JobEligible) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is None or entrant.eligible or entrant.paused:
        return
    _leave_lines(state, event.job, entrant)
    entrant.eligible, entrant.held = True, ""
    _compete(state, entrant, 1)


def _held(state: State, _entry: Entry, event: JobHeld) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is None or entrant.paused:
        return
    _leave_lines(state, event.job, entrant)
    entrant.held = event.reason
    if entrant.after:
        return  # judged anew when what it waits for has ended
    group = state.groups.get(entrant.group)
    if event.reason == HELD_GROUP and group is not None:
        group.waiting[event.job] = None
    elif event.reason != HELD_QUOTA:
        state.never[event.job] = None
    else:
        state.firm_waiting.setdefault(entrant.project, {})[event.job] = None


def _paused(state: State, _entry: Entry, event: JobPaused) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is None or entrant.paused:
        return
    _leave_lines(state, event.job, entrant)
    if entrant.eligible:
        _compete(state, entrant, -1)
    entrant.eligible, entrant.held, entrant.paused = False, "", True
    _want(state, entrant, -entrant.milli)
    if not entrant.pausing:
        _competes_again(state, event.job, entrant)


def _wanted(state: State, _entry: Entry, event: JobPausing | JobResuming) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is not None:
        entrant.pausing = isinstance(event, JobPausing)
        if entrant.paused and not entrant.pausing:
            _competes_again(state, event.job, entrant)


def _competes_again(state: State, job_id: str, entrant: Entrant) -> None:
    """As if it had just been admitted."""
    entrant.paused = False
    _arrives(state, job_id, entrant)
    _want(state, entrant, entrant.milli)


def _finished(state: State, _entry: Entry, event: JobFinished) -> None:
    _waited_for(state, event)
    entrant = state.jobs.pop(event.job, None)
    if entrant is None:
        group = state.groups.pop(event.job, None)
        if group is not None:
            _ended(state, group.project)
        return
    if not entrant.group:
        _ended(state, entrant.project)
    _leave_lines(state, event.job, entrant)
    _waits_no_more(state, event.job, entrant)
    if not entrant.paused:
        _want(state, entrant, -entrant.milli)
    if entrant.eligible:
        _compete(state, entrant, -1)


def _ended(state: State, project: str) -> None:
    state.live_of[project] -= 1
    if not state.live_of[project]:
        del state.live_of[project]


def _waited_for(state: State, event: JobFinished) -> None:
    """Whoever waited for this end is judged anew; who waited for another is ended by admission."""
    for job_id in state.awaited.pop(event.job, {}):
        waiter = state.jobs[job_id]
        if waiter.after[event.job].is_met_by(event.outcome):
            del waiter.after[event.job]
            if not waiter.paused:
                _arrives(state, job_id, waiter)


def _waits_no_more(state: State, job_id: str, entrant: Entrant) -> None:
    for awaited in entrant.after:
        waiting = state.awaited.get(awaited, {})
        waiting.pop(job_id, None)
        if not waiting:
            state.awaited.pop(awaited, None)


def _divided(state: State, entry: Entry, event: SharesDivided) -> None:
    state.shares, state.shares_total_milli = dict(event.shares), event.total_milli
    state.shares_at_us, state.changed = entry.recorded_at_us, False


def _want(state: State, entrant: Entrant, milli: int) -> None:
    if milli:
        state.wanted[entrant.project] = state.wanted.get(entrant.project, 0) + milli
        state.changed = True


def _compete(state: State, entrant: Entrant, sign: int) -> None:
    """The job has begun (or ceased) to count against its group's and project's numbers."""
    group = state.groups.get(entrant.group)
    if group is not None:
        group.eligible += sign
    if entrant.firm:
        add_usage(state.queues, state.firm, entrant.project, sign * entrant.milli, firm=True)


def _arrives(state: State, job_id: str, entrant: Entrant) -> None:
    state.fresh.setdefault(entrant.project, {})[job_id] = None


def _leave_lines(state: State, job_id: str, entrant: Entrant) -> None:
    fresh = state.fresh.get(entrant.project)
    if fresh is not None:
        fresh.pop(job_id, None)
        if not fresh:
            del state.fresh[entrant.project]
    state.never.pop(job_id, None)
    group = state.groups.get(entrant.group)
    if group is not None:
        group.waiting.pop(job_id, None)
    waiting = state.firm_waiting.get(entrant.project)
    if waiting is not None:
        waiting.pop(job_id, None)
        if not waiting:
            del state.firm_waiting[entrant.project]


_ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    ServiceLed: _led,
    QueueApplyRequested: _asked,
    QueueDeleteRequested: _asked,
    QueueConfigured: _configured,
    QueueDeleted: _deleted,
    QueueRefused: _refused,
    NodeJoined: _joined,
    JobAdmitted: _admitted,
    JobEligible: _eligible,
    JobHeld: _held,
    JobPausing: _wanted,
    JobPaused: _paused,
    JobResuming: _wanted,
    JobFinished: _finished,
    SharesDivided: _divided,
    **usage_rules.ON,
}

LISTENS_TO = tuple(_ON)
