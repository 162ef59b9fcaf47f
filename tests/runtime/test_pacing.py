"""Few events are seen to at once; of many, those of a moment are one turn's."""

import asyncio

import pytest

from headrace.runtime.pacing import BURST, FEW_PER_S, TURNS_APART, Pace

from .rig import virtual

APART_S_MAX = 0.04
TURN_S = 0.002


async def _turns(pace, count, events, comes_after_s=0.0, turn_s=TURN_S):
    """How long each turn waited after the one before."""
    now_s, waited_s = asyncio.get_running_loop().time, []
    for _ in range(count):
        await asyncio.sleep(comes_after_s)
        before_s = now_s()
        await pace.turn()
        waited_s.append(now_s() - before_s)
        await asyncio.sleep(turn_s)
        pace.took(events)
    return waited_s


@virtual
async def test_few_events_wait_for_nothing_however_many_turns_they_need():
    events = int(FEW_PER_S * 0.02)  # every 20 ms and a turn
    assert sum(await _turns(Pace(APART_S_MAX), 500, events, comes_after_s=0.02)) == 0


@virtual
async def test_a_burst_after_a_rest_is_seen_to_at_once():
    pace = Pace(APART_S_MAX)
    assert sum(await _turns(pace, BURST // 5, 5)) == 0


@virtual
@pytest.mark.parametrize(
    ("turn_s", "apart_s"),
    [(0.002, 0.002 * TURNS_APART), (0.005, 0.005 * TURNS_APART), (0.02, APART_S_MAX)],
)
async def test_where_many_come_turns_are_apart_by_what_the_last_one_makes_worth(turn_s, apart_s):
    pace = Pace(APART_S_MAX)
    await _turns(pace, 20, 200, turn_s=turn_s)
    waited_s = await _turns(pace, 20, 200, turn_s=turn_s)
    assert waited_s == pytest.approx([apart_s - turn_s] * 20)


@virtual
async def test_after_a_long_turn_nobody_pauses():
    pace = Pace(APART_S_MAX)
    assert sum(await _turns(pace, 20, 200, turn_s=2 * APART_S_MAX)) == 0


@virtual
async def test_who_is_through_with_many_is_soon_at_once_again():
    pace = Pace(APART_S_MAX)
    await _turns(pace, 5, 100_000)
    await asyncio.sleep(2 * BURST / FEW_PER_S)
    assert sum(await _turns(pace, 5, 5)) == 0
