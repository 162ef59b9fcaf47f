"""How admission follows what administrators apply and delete, and the nodes.

Rule: total; what was warned of today's fleet is forgotten whenever that changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.admission import evolve_members
from headrace.admission.derived import fleet_changed
from headrace.admission.state import Kept, Machine, State
from headrace.events import Entry, Event, nodes, pools, queues, templates, volumes


def _queue(state: State, entry: Entry, event: queues.QueueConfigured) -> None:
    state.queues[event.name] = event.queue
    state.configured[event.name] = entry.position
    state.gone.pop(event.name, None)


def _queue_deleted(state: State, entry: Entry, event: queues.QueueDeleted) -> None:
    """What was of the project goes with it; jobs that were let in meanwhile are to end."""
    state.queues.pop(event.name, None)
    state.configured.pop(event.name, None)
    state.secrets.pop(event.name, None)
    state.hooks.pop(event.name, None)
    state.templates.pop(event.name, None)
    state.gone[event.name] = entry.position
    for job_id, job in state.live.items():
        if job.project == event.name and not job.group and not job.cancelling:
            state.orphans[job_id] = entry.position


def _pool(state: State, _entry: Entry, event: pools.PoolConfigured | pools.PoolDeleted) -> None:
    if isinstance(event, pools.PoolConfigured):
        state.pools[event.name] = event.pool
    else:
        state.pools.pop(event.name, None)
    fleet_changed(state)


def _joined(state: State, _entry: Entry, event: nodes.NodeJoined) -> None:
    before = state.nodes.get(event.node)
    accepting = before is None or before.accepting
    state.nodes[event.node] = Machine(said=event, accepting=accepting)
    fleet_changed(state)


def _node_changed(state: State, entry: Entry, event: nodes.NodeChanged) -> None:
    if event.change == "delete":
        state.nodes.pop(event.node, None)
        fleet_changed(state)
        evolve_members.left(state, event.node, entry.recorded_at_us)
    node = state.nodes.get(event.node)
    if node is not None:
        node.accepting = event.change == "uncordon"
        fleet_changed(state)


def _volume(
    state: State, _entry: Entry, event: volumes.VolumeConfigured | volumes.VolumeDeleted
) -> None:
    if isinstance(event, volumes.VolumeConfigured):
        state.volumes[event.name] = event.volume
    else:
        state.volumes.pop(event.name, None)
    fleet_changed(state)


def _template(state: State, entry: Entry, event: templates.TemplateConfigured) -> None:
    known = state.templates.setdefault(event.project, {})
    before = known.get(event.name)
    if before is None or before.template != event.template:
        known[event.name] = Kept(template=event.template, position=entry.position)


def _template_deleted(state: State, _entry: Entry, event: templates.TemplateDeleted) -> None:
    known = state.templates.get(event.project, {})
    known.pop(event.name, None)
    if not known:
        state.templates.pop(event.project, None)


ON: dict[type[Event], Callable[[State, Entry, Any], None]] = {
    queues.QueueConfigured: _queue,
    queues.QueueDeleted: _queue_deleted,
    pools.PoolConfigured: _pool,
    pools.PoolDeleted: _pool,
    nodes.NodeJoined: _joined,
    nodes.NodeChanged: _node_changed,
    volumes.VolumeConfigured: _volume,
    volumes.VolumeDeleted: _volume,
    templates.TemplateConfigured: _template,
    templates.TemplateDeleted: _template_deleted,
}
