"""How turns are taken: what the administrators' document of it must fulfil, and how the state
follows it.

Rule: judged in the order of the log, and in force before anything else is decided. What was promised
before stays promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace.decider import Draft
from headrace.events import Entry, Refusal
from headrace.events.scheduling import (
    Scheduling,
    SchedulingApplyRequested,
    SchedulingConfigured,
    SchedulingRefused,
)
from headrace.placement import usage_rules
from headrace.placement.derived import index_of
from headrace.placement.state import UNSAID, SchedulingApply, State

APPLIED_MAX = 64  # documents in one decision


def decide_scheduling(state: State) -> Iterator[Draft]:
    """The answer to each document."""
    before = state.scheduling
    for position, applied in list(state.scheduling_applied.items())[:APPLIED_MAX]:
        scheduling, refusal = applied.scheduling, refuse(applied.scheduling)
        event: SchedulingConfigured | SchedulingRefused
        if refusal is not None:
            event = SchedulingRefused(refusal=refusal)
        else:
            change = "unchanged" if before == scheduling else "updated" if before else "created"
            event = SchedulingConfigured(scheduling=scheduling, change=change)
            before = scheduling
        yield Draft(event=event, causation=position, actor=applied.user)


def refuse(scheduling: Scheduling) -> Refusal | None:
    """Why turns cannot be taken like that; None when they can."""
    for name in scheduling.__struct_fields__:
        number = getattr(scheduling, name)
        if number < UNSAID:
            return Refusal(field=name, value=str(number), rule="must not be negative")
    if not scheduling.usage_half_life_s:
        return Refusal(field="past_usage.half_life", value="0s", rule="must be above 0")
    return None


def _applied(state: State, entry: Entry, event: SchedulingApplyRequested) -> None:
    applied = SchedulingApply(scheduling=event.scheduling, user=event.user)
    state.scheduling_applied[entry.position] = applied


def _configured(state: State, entry: Entry, event: SchedulingConfigured) -> None:
    state.scheduling_applied.pop(entry.header.causation, None)
    state.scheduling = event.scheduling
    usage_rules.retimed(state, entry.recorded_at_us)
    index_of(state).resettled(state, entry.recorded_at_us)


def _refused(state: State, entry: Entry, _event: SchedulingRefused) -> None:
    state.scheduling_applied.pop(entry.header.causation, None)


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    SchedulingApplyRequested: _applied,
    SchedulingConfigured: _configured,
    SchedulingRefused: _refused,
}
