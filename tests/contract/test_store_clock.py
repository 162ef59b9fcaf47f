"""What every log promises while the clock of its database is set: time goes on as it did."""

from __future__ import annotations

import pytest
from tests.contract.services import LEASE_S, event, leader

YEAR_US = 365 * 86_400_000_000
MINUTE_US = 60_000_000


async def recorded_at_us(writer):
    appended = await writer.append(event())
    return appended.events[0].recorded_at_us


@pytest.mark.parametrize("ahead_us", [YEAR_US, -YEAR_US, 5 * MINUTE_US])
async def test_a_clock_that_is_set_and_set_right_moves_no_time(logs, ahead_us):
    writer = await leader(logs)
    before_us = await recorded_at_us(writer)
    assert writer.store.stepped_us() == 0
    await logs.set_clock(ahead_us)
    ahead_at_us = await recorded_at_us(writer)
    assert 0 <= ahead_at_us - before_us < MINUTE_US
    assert abs(writer.store.stepped_us() - ahead_us) < MINUTE_US
    assert writer.store.stepped_us() == 0, "told once"
    assert abs((await writer.store.head()).now_us - before_us) < MINUTE_US
    await logs.set_clock(0)
    assert 0 <= await recorded_at_us(writer) - ahead_at_us < MINUTE_US
    assert abs(writer.store.stepped_us() + ahead_us) < MINUTE_US


async def test_a_request_is_known_while_the_clock_is_a_year_ahead(logs):
    writer = await leader(logs)
    (first,) = (await writer.append(event(key="k"))).events
    await logs.set_clock(YEAR_US)
    assert [d.position for d in (await writer.append(event(key="k"))).duplicates] == [
        first.position
    ]
    await writer.append(event(key="other"))  # forgets what is old
    await logs.set_clock(0)
    assert [d.position for d in (await writer.append(event(key="k"))).duplicates] == [
        first.position
    ]


async def test_a_lease_is_as_long_while_the_clock_is_set(logs):
    writer = await leader(logs)
    await recorded_at_us(writer)
    await logs.set_clock(YEAR_US)
    assert await writer.store.lead("admission", "another", LEASE_S) is None
