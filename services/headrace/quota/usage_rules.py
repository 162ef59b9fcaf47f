"""What projects used lately, as far as their shares depend on it: the same meters as placement's.

Rule: nothing here lets anybody compete or not; only shares follow from it, and only where past usage
counts at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry
from headrace.events.gangs import GangGrown, GangPlaced, GangReleased, WorkersReleased
from headrace.events.pauses import GangPaused, GangResumed
from headrace.events.platform import ServiceLed
from headrace.events.scheduling import SchedulingConfigured, SchedulingDeleted
from headrace.quota.state import State
from headrace.scheduling.tree import path_of
from headrace.scheduling.usage import HALF_LIFE_S, STRENGTH_MILLI


def strength_milli(state: State) -> int:
    """How much past usage counts beside weights."""
    return _chosen(state, "usage_strength_milli", STRENGTH_MILLI)


def led(state: State, entry: Entry, event: ServiceLed) -> None:
    """Whoever leads placement recorded how it counts usage."""
    if event.service == "placement":
        state.placing = dict(event.settings)
        _resettled(state, entry)


def remetered(state: State, at_us: int) -> None:
    """The tree is another one from this moment on: what everybody has counts to its queues there."""
    state.meters.release_all(at_us)
    for project, milli in state.held.items():
        state.meters.add(path_of(state.queues, project), milli, at_us)


def _chose(state: State, entry: Entry, event: SchedulingConfigured | SchedulingDeleted) -> None:
    state.chosen = {} if isinstance(event, SchedulingDeleted) else event.scheduling.chosen()
    _resettled(state, entry)


def _resettled(state: State, entry: Entry) -> None:
    half_life_s = _chosen(state, "usage_half_life_s", HALF_LIFE_S)
    state.meters.retime(half_life_s, entry.recorded_at_us)
    state.changed = True


def _chosen(state: State, name: str, default: int) -> int:
    return state.chosen.get(name, state.placing.get(name, default))


def _more(state: State, entry: Entry, event: GangPlaced | GangGrown | GangResumed) -> None:
    _hold(state, entry, event.project, event.milli)


def _less(state: State, entry: Entry, event: GangPaused | GangReleased | WorkersReleased) -> None:
    _hold(state, entry, event.project, -event.milli)


def _hold(state: State, entry: Entry, project: str, milli: int) -> None:
    state.held[project] = state.held.get(project, 0) + milli
    state.meters.add(path_of(state.queues, project), milli, entry.recorded_at_us)


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    SchedulingConfigured: _chose,
    SchedulingDeleted: _chose,
    GangPlaced: _more,
    GangGrown: _more,
    GangResumed: _more,
    GangPaused: _less,
    GangReleased: _less,
    WorkersReleased: _less,
}
