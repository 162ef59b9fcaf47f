"""Few events are seen to at once; of many, those of a moment are one turn's."""

import asyncio

from headrace.runtime.pacing import BURST, FEW_PER_S, Pace

from .rig import virtual

APART_S = 0.04
TURN_S = 0.002


async def _turns(pace, count, events, comes_after_s=0.0):
    """How long each turn waited for the one before."""
    now_s, waited_s = asyncio.get_running_loop().time, []
    for _ in range(count):
        await asyncio.sleep(comes_after_s)
        before_s = now_s()
        await pace.turn()
        waited_s.append(now_s() - before_s)
        pace.took(events)
        await asyncio.sleep(TURN_S)
    return waited_s


@virtual
async def test_few_events_wait_for_nothing_however_many_turns_they_need():
    events = int(FEW_PER_S * 0.02)  # every 20 ms and a turn
    assert sum(await _turns(Pace(APART_S), 500, events, comes_after_s=0.02)) == 0


@virtual
async def test_a_burst_after_a_rest_is_seen_to_at_once():
    pace = Pace(APART_S)
    assert sum(await _turns(pace, BURST // 5, 5)) == 0


@virtual
async def test_where_many_come_turns_are_apart():
    pace, loop = Pace(APART_S), asyncio.get_running_loop()
    await _turns(pace, 20, 30)
    began_s = loop.time()
    await _turns(pace, 100, 30)
    assert loop.time() - began_s > 99 * APART_S


@virtual
async def test_who_is_through_with_many_is_soon_at_once_again():
    pace = Pace(APART_S)
    await _turns(pace, 5, 100_000)
    await asyncio.sleep(2 * BURST / FEW_PER_S)
    assert sum(await _turns(pace, 5, 5)) == 0
