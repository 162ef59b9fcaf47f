"""A turn begins at once after quiet, begins from time to time where turns are many, and waits for no more
once enough waits for it.
"""

import asyncio

from headrace.runtime.pacing import CREDIT_S, ENOUGH, REST_S_LEAST, SHARE, Rests

from .rig import virtual

TURN_S = 0.004


async def _turns(rests, count, took_s=TURN_S, waiting=0):
    """How long each of them had to wait before it began."""
    now_s = asyncio.get_running_loop().time
    waited_s = []
    for _ in range(count):
        before_s = now_s()
        await rests.before(waiting)
        waited_s.append(now_s() - before_s)
        began_s = now_s()
        await asyncio.sleep(took_s)
        rests.took(began_s)
    return waited_s


@virtual
async def test_a_loop_that_rested_begins_its_turns_at_once():
    waited_s = await _turns(Rests(), int(CREDIT_S / TURN_S))
    assert sum(waited_s) == 0


@virtual
async def test_a_loop_that_goes_round_and_round_works_its_share_of_the_time():
    rests, loop = Rests(), asyncio.get_running_loop()
    await _turns(rests, 20)
    began_s = loop.time()
    await _turns(rests, 300)
    share = 300 * TURN_S / (loop.time() - began_s)
    assert abs(share - SHARE) < 0.01


@virtual
async def test_nobody_rests_while_enough_waits():
    assert sum(await _turns(Rests(), 200, waiting=ENOUGH)) == 0


@virtual
async def test_one_long_turn_is_no_debt_for_long():
    rests, loop = Rests(), asyncio.get_running_loop()
    await _turns(rests, 1, took_s=10.0)
    before_s = loop.time()
    await rests.before(0)
    assert loop.time() - before_s <= REST_S_LEAST
