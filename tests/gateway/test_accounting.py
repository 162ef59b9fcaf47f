"""Who used how much: by day, by whom, of what, and what it cost."""

import msgspec
import pytest
from tests.gateway.histories import RUN, SECOND_US, folded, joined, released, requested

from headrace.client import ClientError
from headrace.client.usage_model import UsageRow
from headrace.events.gangs import Share
from headrace.events.pools import Pool, PoolConfigured
from headrace.gateway.accounting import DAY_US, DAYS_MAX, HOUR_US, Booking, account, grouped, usage
from headrace.gateway.projection import Projection


def priced(**prices):
    pool = Pool(pool="train", label="pool", value="train", prices=prices, currency="EUR")
    return PoolConfigured(name="train", pool=pool, change="created")


def booked(projection, begin_us, end_us, milli=1000):
    device = next(iter(projection.devices))
    share = Share(device=device, milli=milli)
    account(projection, Booking("hello-a", "vision", share, begin_us, end_us))


def fleet(*events):
    node = msgspec.structs.replace(joined(), labels={"pool": "train"})
    return folded(node, requested(), *events)


def test_time_is_counted_on_the_days_on_which_it_passed():
    projection = fleet()
    booked(projection, DAY_US - HOUR_US, DAY_US + 2 * HOUR_US, milli=500)
    assert grouped(usage(projection, DAY_US), ["day"]) == [
        UsageRow(day="1970-01-01", gpu_us=HOUR_US // 2),
        UsageRow(day="1970-01-02", gpu_us=HOUR_US),
    ]


def test_what_it_cost_is_the_price_of_the_pool_for_that_model():
    projection = fleet(priced(H100=2_100_000))
    booked(projection, 0, 3 * HOUR_US)
    (row,) = grouped(usage(projection, HOUR_US), ["pool", "user"])
    assert (row.pool, row.cost_micro, row.currency) == ("train", 6_300_000, "EUR")
    assert row.user


def test_a_later_price_does_not_change_what_was_given_back():
    projection = fleet(priced(H100=1_000_000))
    booked(projection, 0, HOUR_US)
    folded(priced(H100=9_000_000), into=projection)
    (row,) = grouped(usage(projection, HOUR_US), ["project"])
    assert row.cost_micro == 1_000_000


def test_what_is_held_still_counts_up_to_now():
    projection = folded(joined(), *RUN)
    began_us = next(iter(next(iter(projection.since.values())).values()))
    (row,) = grouped(usage(projection, began_us + 8 * SECOND_US), ["project"])
    assert row.gpu_us == 8 * SECOND_US * projection.live["hello-a"].held_milli // 1000


def test_what_was_given_back_is_counted_once():
    projection = folded(joined(), *RUN, released())
    assert projection.since == {}
    before = usage(projection, projection.at_us)
    assert usage(projection, projection.at_us + HOUR_US) == before
    assert sum(used.gpu_us for used in before.values()) == projection.live["hello-a"].gpu_us


def test_old_days_are_forgotten():
    projection = fleet()
    booked(projection, 0, HOUR_US)
    booked(projection, (DAYS_MAX + 1) * DAY_US, (DAYS_MAX + 1) * DAY_US + HOUR_US)
    assert [key.day for key in projection.usage] == [DAYS_MAX + 1]


def test_a_device_that_nobody_knows_is_counted_without_a_price():
    projection = Projection()
    account(projection, Booking("a", "vision", Share(device="x", milli=1000), 0, HOUR_US))
    (row,) = grouped(usage(projection, HOUR_US), ["project", "model"])
    assert row == UsageRow(project="vision", gpu_us=HOUR_US)


async def test_it_is_read_by_anything(world):
    await world.append(joined(), *RUN, released())
    await world.gateway.follower.reached(len(world.log.events))
    client = world.client()
    rows = await world.call(client.usage, by="day,user")
    assert [bool(row.day and row.user) for row in rows] == [True]
    with pytest.raises(ClientError, match="hour — is none of day, project, user, model, pool"):
        await world.call(client.usage, by="hour")
