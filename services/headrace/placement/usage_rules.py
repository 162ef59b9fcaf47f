"""What queues used lately, from the log: who used more than its weight gets less over quota.

Rule: a meter changes only when its queue gets or gives back devices; a decision looks at windows
that have closed, so that it is the same however often it is asked in between.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.placement.state import State
from headrace.scheduling.amounts import Amounts
from headrace.scheduling.rations import leaf_of
from headrace.scheduling.tree import path_of
from headrace.scheduling.usage import Meter, part_of, window_ms_of

Holder = tuple[str, str, int]  # project, user, milli-GPUs


def metered(state: State, holder: Holder, at_us: int) -> None:
    """From this moment on a user's project has so much more."""
    project, user, milli = holder
    now_ms = _moment_ms(state, at_us)
    for queue in _queues_of(state, project, user):
        meter = state.meters.setdefault(queue, Meter(at_ms=now_ms))
        meter.add(milli, now_ms, window_ms(state))


def remetered(state: State, holders: Iterable[Holder], at_us: int) -> None:
    """The tree is another one from this moment on: what everybody has counts to its queues there."""
    now_ms = _moment_ms(state, at_us)
    for meter in state.meters.values():
        meter.add(-meter.milli, now_ms, window_ms(state))
    for holder in holders:
        metered(state, holder, at_us)


def retimed(state: State, old_window_ms: int, at_us: int) -> None:
    """The half-life is another one from this moment on."""
    now_ms = _moment_ms(state, at_us)
    for meter in state.meters.values():
        meter.add(0, now_ms, old_window_ms)
        meter.retime(old_window_ms, window_ms(state))


def used_lately(
    state: State, queues: Iterable[str], total_milli: int, now_us: int
) -> dict[str, Amounts] | None:
    """What of all GPUs each of these queues used lately; None while nobody is to be judged by it."""
    if not state.setting("usage_strength_milli"):
        return None
    length_ms, window = window_ms(state), window_at(state, now_us)
    meters = {queue: state.meters[queue] for queue in queues if queue in state.meters}
    return {
        queue: (part_of(meter.closed_by(window, length_ms), total_milli, length_ms), 0, 0)
        for queue, meter in meters.items()
    }


def window_at(state: State, now_us: int) -> int:
    """The window that is open now; never one before the log's."""
    return max(now_us // 1000, state.metered_ms) // window_ms(state)


def window_ms(state: State) -> int:
    """How long usage is the same."""
    return window_ms_of(state.setting("usage_half_life_s"))


def _moment_ms(state: State, at_us: int) -> int:
    state.metered_ms = max(state.metered_ms, at_us // 1000)
    return state.metered_ms


def _queues_of(state: State, project: str, user: str) -> list[str]:
    leaf = leaf_of(state.queues.get(project), project, user)
    path = path_of(state.queues, project)
    return path if leaf == project else [*path, leaf]
