"""The shares that people see: each project's fair part of all GPUs.

Rule: told when they have changed, and so often at most as the settings say. What parts of the fleet
(types, pools) allow is not in them: placement divides each part for itself.
"""

from __future__ import annotations

from headrace.decider import Draft
from headrace.events.queues import SharesDivided
from headrace.quota.state import State
from headrace.quota.usage_rules import strength_milli
from headrace.scheduling.division import divide_tree

NEVER = -1


def shares_due(state: State, now_us: int) -> bool:
    """Whether shares may be others than were told, and may be told."""
    if state.__dict__.get("told") == _window(state, now_us):
        return False
    moved = strength_milli(state) and _window(state, now_us) > _told_window(state)
    may_tell_us = state.shares_at_us + state.setting("shares_interval_us")
    return now_us >= may_tell_us and bool(state.changed or moved)


def shares_moment(state: State) -> int | None:
    """When shares have to be looked at again although nothing happens."""
    told = state.__dict__.get("told")
    if told is None and state.changed:
        return state.shares_at_us + state.setting("shares_interval_us")
    if not strength_milli(state) or not any(state.wanted.values()):
        return None
    return state.meters.closes_us(_told_window(state) if told is None else told)


def decide_shares(state: State, now_us: int) -> list[Draft]:
    """They are told if they are others than were told. Remembers beside the state that they were
    looked at.
    """
    strength, total_milli = strength_milli(state), state.total_milli
    used = state.meters.used(state.queues, total_milli, now_us) if strength else {}
    shares = divide_tree(state.queues, state.wanted, total_milli, used, strength)
    projects = {name: shares[name] for name in shares if state.queues[name].kind == "project"}
    if projects == state.shares and total_milli == state.shares_total_milli:
        state.__dict__["told"] = _window(state, now_us)
        return []
    return [Draft(event=SharesDivided(total_milli=total_milli, shares=projects))]


def _told_window(state: State) -> int:
    return state.meters.window_of(state.shares_at_us)


def _window(state: State, at_us: int) -> int:
    """Between which moments past usage is the same; always the same where it does not count."""
    return state.meters.window_at(at_us) if strength_milli(state) else NEVER
