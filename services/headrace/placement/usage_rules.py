"""What queues used lately, from the log: who used more than its weight gets less over quota.

Rule: what a user's project has is its own use and that of all queues above it.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.placement.state import State
from headrace.scheduling.amounts import Amounts
from headrace.scheduling.rations import leaf_of
from headrace.scheduling.tree import path_of

Holder = tuple[str, str, int]  # project, user, milli-GPUs


def metered(state: State, holder: Holder, at_us: int) -> None:
    """From this moment on a user's project has so much more."""
    project, user, milli = holder
    state.meters.add(_queues_of(state, project, user), milli, at_us)


def remetered(state: State, holders: Iterable[Holder], at_us: int) -> None:
    """The tree is another one from this moment on: what everybody has counts to its queues there."""
    state.meters.release_all(at_us)
    for holder in holders:
        metered(state, holder, at_us)


def retimed(state: State, at_us: int) -> None:
    """The half-life is that of the settings from this moment on."""
    state.meters.retime(state.setting("usage_half_life_s"), at_us)


def used_lately(
    state: State, queues: Iterable[str], total_milli: int, now_us: int
) -> dict[str, Amounts] | None:
    """What of all GPUs each of these queues used lately; None while nobody is to be judged by it."""
    if not state.setting("usage_strength_milli"):
        return None
    used = state.meters.used(queues, total_milli, now_us)
    return {queue: (part, 0, 0) for queue, part in used.items()}


def _queues_of(state: State, project: str, user: str) -> list[str]:
    leaf = leaf_of(state.queues.get(project), project, user)
    path = path_of(state.queues, project)
    return path if leaf == project else [*path, leaf]
