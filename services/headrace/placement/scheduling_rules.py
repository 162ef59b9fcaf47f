"""How turns are taken: what the administrators' document of it must fulfil, and how the state
follows it.

Rule: judged in the order of the log, and in force before anything else is decided. What was promised
before stays promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace.decider import Draft
from headrace.events import Decision, Entry, Refusal
from headrace.events.scheduling import (
    Scheduling,
    SchedulingApplyRequested,
    SchedulingConfigured,
    SchedulingDeleted,
    SchedulingDeleteRequested,
    SchedulingRefused,
)
from headrace.placement import usage_rules
from headrace.placement.derived import index_of
from headrace.placement.state import UNSAID, State

APPLIED_MAX = 64  # documents in one decision


def decide_scheduling(state: State) -> Iterator[Draft]:
    """The answer to each request."""
    now = state.scheduling
    for position, asked in list(state.scheduling_asked.items())[:APPLIED_MAX]:
        if isinstance(asked, SchedulingApplyRequested):
            answer = _applied(now, asked.scheduling)
        else:
            answer = _deleted(now)
        if isinstance(answer, SchedulingConfigured):
            now = answer.scheduling
        elif isinstance(answer, SchedulingDeleted):
            now = None
        yield Draft(event=answer, causation=position, actor=asked.user)


def _applied(before: Scheduling | None, scheduling: Scheduling) -> Decision:
    refusal = refuse(scheduling)
    if refusal is not None:
        return SchedulingRefused(refusal=refusal)
    change = "unchanged" if before == scheduling else "updated" if before else "created"
    return SchedulingConfigured(scheduling=scheduling, change=change)


def _deleted(before: Scheduling | None) -> Decision:
    if before is None:
        rule = "no such document was applied: turns are taken as the platform has it"
        return SchedulingRefused(refusal=Refusal(field="scheduling", rule=rule))
    return SchedulingDeleted()


def refuse(scheduling: Scheduling) -> Refusal | None:
    """Why turns cannot be taken like that; None when they can."""
    for name in scheduling.__struct_fields__:
        number = getattr(scheduling, name)
        if number < UNSAID:
            return Refusal(field=name, value=str(number), rule="must not be negative")
    if not scheduling.usage_half_life_s:
        return Refusal(field="past_usage.half_life", value="0s", rule="must be above 0")
    return None


def _asked(
    state: State, entry: Entry, event: SchedulingApplyRequested | SchedulingDeleteRequested
) -> None:
    state.scheduling_asked[entry.position] = event


def _stands(state: State, entry: Entry, event: SchedulingConfigured | SchedulingDeleted) -> None:
    state.scheduling_asked.pop(entry.header.causation, None)
    state.scheduling = event.scheduling if isinstance(event, SchedulingConfigured) else None
    usage_rules.retimed(state, entry.recorded_at_us)
    index_of(state).resettled(state, entry.recorded_at_us)


def _refused(state: State, entry: Entry, _event: SchedulingRefused) -> None:
    state.scheduling_asked.pop(entry.header.causation, None)


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    SchedulingApplyRequested: _asked,
    SchedulingDeleteRequested: _asked,
    SchedulingConfigured: _stands,
    SchedulingDeleted: _stands,
    SchedulingRefused: _refused,
}
