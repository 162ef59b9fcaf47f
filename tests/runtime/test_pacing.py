"""Who comes alone waits for nobody; those of one moment go together."""

import asyncio

from headrace.runtime.pacing import Company, Pace

from .rig import virtual


def test_after_a_rest_some_follow_freely_and_the_others_at_their_time():
    pace = Pace(apart_s=1.0, free=3)
    assert [pace.due_s(100.0) for _ in range(5)] == [100.0, 100.0, 100.0, 101.0, 102.0]
    assert pace.due_s(150.0) == 150.0


def test_who_keeps_the_pace_never_waits():
    pace = Pace(apart_s=1.0, free=1)
    assert [pace.due_s(at_s) for at_s in (10.0, 11.0, 12.5, 13.5)] == [10.0, 11.0, 12.5, 13.5]


@virtual
async def test_whoever_comes_while_others_wait_goes_with_them():
    company, gone = Company(Pace(apart_s=1.0, free=1)), []

    async def go(name):
        await company.go()
        gone.append(name)

    await go("first")
    assert gone == ["first"]
    others = [asyncio.create_task(go(name)) for name in ("a", "b", "c")]
    await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0)
    assert gone == ["first", "a", "b", "c"]


@virtual
async def test_who_stops_waiting_keeps_nobody_else():
    company = Company(Pace(apart_s=1.0, free=1))
    await company.go()
    tired, patient = (asyncio.create_task(company.go()) for _ in range(2))
    await asyncio.sleep(0)
    tired.cancel()
    await patient
    assert tired.cancelled()
