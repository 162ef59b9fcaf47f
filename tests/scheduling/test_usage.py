"""What queues used lately, in exact arithmetic."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduling.shares import USAGE_ONE
from headrace.scheduling.usage import (
    ALWAYS,
    ONE,
    WINDOWS,
    Meter,
    decayed,
    part_of,
    together,
    window_ms_of,
)

WEEK_S = 7 * 86_400
WINDOW_MS = window_ms_of(WEEK_S)
HALF_LIFE_MS = WINDOW_MS * WINDOWS

steps = st.lists(st.tuples(st.integers(0, 3 * HALF_LIFE_MS), st.integers(0, 64_000)), max_size=8)


def used(history, until_ms):
    """A meter after `(ms until the next change, milli from then on)`, and its part of 64 GPUs."""
    meter = Meter()
    now_ms = 0
    for after_ms, milli in history:
        now_ms += after_ms
        meter.add(milli - meter.milli, now_ms, WINDOW_MS)
    window = max(until_ms, now_ms) // WINDOW_MS
    return part_of(meter.closed_by(window, WINDOW_MS), 64_000, WINDOW_MS)


def test_after_a_half_life_half_is_left():
    assert decayed(1 << 40, WINDOWS) == 1 << 39
    assert decayed(1 << 40, 3 * WINDOWS) == 1 << 37
    assert decayed(decayed(1 << 40, WINDOWS // 2), WINDOWS // 2) in range((1 << 39) - 2, 1 << 39)


def test_all_there_is_used_all_the_time_comes_to_one():
    assert used([(0, 64_000)], 40 * HALF_LIFE_MS) in (USAGE_ONE - 1, USAGE_ONE)
    assert used([(0, 64_000)], HALF_LIFE_MS) in (USAGE_ONE // 2 - 1, USAGE_ONE // 2)


def test_what_was_used_before_counts_less_than_what_was_used_now():
    early = [(0, 64_000), (HALF_LIFE_MS, 0)]
    late = [(HALF_LIFE_MS, 64_000), (HALF_LIFE_MS, 0)]
    assert used(early, 2 * HALF_LIFE_MS) in range(USAGE_ONE // 4 - 2, USAGE_ONE // 4 + 1)
    assert used(late, 2 * HALF_LIFE_MS) in range(USAGE_ONE // 2 - 2, USAGE_ONE // 2 + 1)


def test_windows_together_are_their_sum():
    assert together(0) == 0
    assert together(1) == ONE
    assert together(WINDOWS) == ALWAYS // 2
    for windows in (2, WINDOWS - 1, WINDOWS + 5, 3 * WINDOWS + 7):
        exact = sum(decayed(ONE, window) for window in range(windows))
        assert abs(together(windows) - exact) <= windows


@given(history=steps, looks=st.lists(st.integers(0, 3 * HALF_LIFE_MS), max_size=4))
def test_nothing_that_is_not_a_change_changes_it_by_more_than_its_rounding(history, looks):
    """A change to the same amount, at any moment, leaves what was used as it was."""
    plain, looked, now_ms = Meter(), Meter(), 0
    pauses = iter(looks)
    for after_ms, milli in history:
        extra_ms = min(next(pauses, 0), after_ms)
        looked.add(0, now_ms + extra_ms, WINDOW_MS)
        now_ms += after_ms
        for meter in (plain, looked):
            meter.add(milli - meter.milli, now_ms, WINDOW_MS)
    window = now_ms // WINDOW_MS + 1
    sizes = [part_of(m.closed_by(window, WINDOW_MS), 64_000, WINDOW_MS) for m in (plain, looked)]
    assert abs(sizes[0] - sizes[1]) <= 1


@given(history=steps, cut=st.integers(0, 8), within_ms=st.integers(0, WINDOW_MS - 1))
def test_in_one_window_it_is_the_same_at_every_moment(history, cut, within_ms):
    """Whatever changes after the window has opened counts when it closes."""
    meter, now_ms = Meter(), 0
    for after_ms, milli in history[:cut]:
        now_ms += after_ms
        meter.add(milli - meter.milli, now_ms, WINDOW_MS)
    window = now_ms // WINDOW_MS + 1
    before = meter.closed_by(window, WINDOW_MS)
    meter.add(1000, window * WINDOW_MS + within_ms, WINDOW_MS)
    assert meter.closed_by(window, WINDOW_MS) == before


@given(history=steps)
def test_it_is_between_nothing_and_all_there_is(history):
    assert 0 <= used(history, 20 * HALF_LIFE_MS) <= USAGE_ONE
