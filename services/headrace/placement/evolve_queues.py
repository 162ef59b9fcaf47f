"""How placement follows the tree of queues: one is configured anew, or is no more.

Rule: total; what jobs hold of a queue is counted anew in every tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry
from headrace.events.queues import Queue, QueueConfigured, QueueDeleted
from headrace.placement import evolve_gangs, usage_rules
from headrace.placement.derived import index_of
from headrace.placement.state import State
from headrace.scheduling.tree import usage_of


def _configured(state: State, entry: Entry, event: QueueConfigured) -> None:
    before, state.queues[event.name] = state.queues.get(event.name), event.queue
    if event.queue.evictions_max <= 0:
        state.evictions.pop(event.name, None)
    _regrown(state, entry, event.name, before)


def _deleted(state: State, entry: Entry, event: QueueDeleted) -> None:
    before = state.queues.pop(event.name, None)
    state.evictions.pop(event.name, None)
    state.secrets.pop(event.name, None)
    _regrown(state, entry, event.name, before)


def _regrown(state: State, entry: Entry, name: str, before: Queue | None) -> None:
    """The tree is another one from here on, at this queue."""
    jobs = [(job, job.run) for job in state.jobs.values() if job.run is not None]
    holdings = (
        (job.project, milli, firm)
        for job, run in jobs
        if run.booked
        for milli, firm in evolve_gangs.parts_of(job, run.workers)
    )
    state.usage = usage_of(state.queues, holdings)
    holders = [(job.project, job.user, run.milli) for job, run in jobs]
    usage_rules.remetered(state, holders, entry.recorded_at_us)
    users_equal = before is not None and before.users_equal
    index_of(state).requeued(state, name, users_equal=users_equal)


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    QueueConfigured: _configured,
    QueueDeleted: _deleted,
}
