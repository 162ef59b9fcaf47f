"""What every log promises, held against Postgres and its in-memory twin alike."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.services import LEASE_S, TYPES, assert_whole, event, leader, snapshot

from headrace.store.interface import (
    APPEND_EVENTS_MAX,
    EVENT_BYTES_MAX,
    GENESIS,
    Behind,
    Fenced,
    Forked,
    NotAllowed,
    StoreError,
    Unavailable,
)

# reading and appending


async def test_an_empty_log_ends_at_position_zero(logs):
    store = await logs.store("admission")
    head = await store.head()
    assert (head.position, head.hash) == (0, GENESIS)
    assert await store.read(0) == []
    assert await store.read_stream("job/1") == []


async def test_what_was_appended_is_what_is_read(logs):
    admission = await leader(logs)
    before = await admission.store.head()
    appended = await admission.append(event(1), event(2, header=b"", data=b""))
    assert appended.indexes == (0, 1)
    assert appended.duplicates == ()
    assert [e.position for e in appended.events] == [1, 2]
    assert await admission.store.read(0) == list(appended.events)
    assert before.now_us <= appended.events[0].recorded_at_us <= appended.now_us
    assert await assert_whole(admission.store) == 2


async def test_the_log_is_read_in_pages_and_by_stream(logs):
    admission = await leader(logs)
    for batch in range(10):
        await admission.append(*(event(number) for number in range(batch, batch + 20)))
    store = admission.store
    assert [e.position for e in await store.read(37, 5)] == [38, 39, 40, 41, 42]
    assert [e.position for e in await store.read(199)] == [200]
    assert await store.read(200) == []
    stream = await store.read_stream("job/9")
    assert len(stream) == 10
    assert {e.stream for e in stream} == {"job/9"}
    assert await store.read_stream("job/9", stream[3].position, 2) == stream[4:6]


async def test_recorded_times_never_go_back(logs):
    admission = await leader(logs)
    quota = await leader(logs, "quota")
    for number in range(5):
        await admission.append(event(number))
        await quota.append(event(number, "quota"))
    times = [e.recorded_at_us for e in await admission.store.read(0)]
    assert times == sorted(times)


async def test_a_clock_that_was_set_back_does_not_set_back_the_log(logs):
    admission = await leader(logs)
    await admission.append(event(1))
    await logs.set_clock_back()
    appended = await admission.append(event(2))
    first, second = await admission.store.read(0)
    assert appended.now_us < second.recorded_at_us
    assert first.recorded_at_us <= second.recorded_at_us
    assert await assert_whole(admission.store) == 2


async def test_an_append_of_nothing_is_still_checked(logs):
    admission = await leader(logs)
    assert (await admission.append()).events == ()
    admission.epoch -= 1
    with pytest.raises(Fenced):
        await admission.append()


async def test_limits_are_held_to_before_anything_is_appended(logs):
    admission = await leader(logs)
    with pytest.raises(StoreError, match="at most 512 events"):
        await admission.append(*(event(n) for n in range(APPEND_EVENTS_MAX + 1)))
    with pytest.raises(StoreError, match="bytes"):
        await admission.append(event(data=b"x" * (EVENT_BYTES_MAX + 1)))
    with pytest.raises(StoreError, match="zero character"):
        await admission.append(event(stream="job/\0"))
    await admission.append(*(event(n) for n in range(APPEND_EVENTS_MAX)))
    await admission.append(event(data=b"x" * EVENT_BYTES_MAX))
    assert await assert_whole(admission.store) == APPEND_EVENTS_MAX + 1


async def test_services_that_append_at_once_leave_no_gap(logs):
    leaders = [await leader(logs, service) for service in TYPES]

    async def work(one):
        for number in range(25):
            await one.append(*(event(number, one.service) for _ in range(1 + number % 4)))

    await asyncio.gather(*(work(one) for one in leaders))
    each = sum(1 + number % 4 for number in range(25))
    assert await assert_whole(leaders[0].store) == each * len(TYPES)


async def test_a_log_opened_again_has_everything(logs):
    admission = await leader(logs)
    await admission.append(event(1, key="k"))
    await admission.store.close()
    again = await logs.store("admission")
    assert await assert_whole(again) == 1
    with pytest.raises(Behind):
        await again.append("admission", admission.epoch, 0, GENESIS, [event(2)])


async def test_a_closed_store_is_unavailable(logs):
    store = await logs.store("admission")
    await store.close()
    with pytest.raises(Unavailable):
        await store.head()


# the basis


async def test_a_service_that_never_led_is_fenced(logs):
    store = await logs.store("admission")
    with pytest.raises(Fenced):
        await store.append("admission", 1, 0, GENESIS, [event()])


async def test_an_earlier_epoch_is_fenced_and_appends_nothing(logs):
    old = await leader(logs)
    await leader(logs)
    with pytest.raises(Fenced):
        await old.append(event())
    assert (await old.store.head()).position == 0


async def test_a_service_whose_own_append_is_not_in_its_basis_is_behind(logs):
    admission = await leader(logs)
    await admission.append(event(1))
    with pytest.raises(Behind):
        await admission.store.append("admission", admission.epoch, 0, GENESIS, [event(2)])
    assert (await admission.store.head()).position == 1


async def test_other_services_events_after_the_basis_do_not_matter(logs):
    admission = await leader(logs)
    quota = await leader(logs, "quota")
    await admission.append(event(1))
    appended = await quota.append(event(1, "quota"))
    assert appended.events[0].position == 2


@pytest.mark.parametrize(
    ("basis", "hash_"), [(0, b"\1" * 32), (1, GENESIS), (2, GENESIS), (2, b"\1" * 32)]
)
async def test_a_basis_that_is_not_the_logs_is_forked(logs, basis, hash_):
    admission = await leader(logs)
    await admission.append(event(1))
    quota = await leader(logs, "quota")
    with pytest.raises(Forked):
        await quota.store.append("quota", quota.epoch, basis, hash_, [event(1, "quota")])
    assert (await quota.store.head()).position == 1


# roles


async def test_a_service_appends_its_own_types_only(logs):
    admission = await leader(logs)
    with pytest.raises(NotAllowed):
        await admission.append(event(1), event(2, "placement"))
    with pytest.raises(NotAllowed):
        await admission.append(event(1, type="nobody.knows.v1"))
    assert (await admission.store.head()).position == 0
    await admission.append(event(1, type="service.led.v1"))


async def test_a_service_acts_for_no_other(logs):
    quota = await leader(logs, "quota")
    store = await logs.store("admission")
    with pytest.raises(NotAllowed):
        await store.append("quota", quota.epoch, 0, GENESIS, [event(1)])
    with pytest.raises(NotAllowed):
        await store.lead("quota", "two", LEASE_S)
    with pytest.raises(NotAllowed):
        await store.renew("quota", "one", quota.epoch, LEASE_S)
    with pytest.raises(NotAllowed):
        await store.save_snapshot(snapshot("quota", 0, GENESIS))


# lost connections


async def test_an_append_whose_reply_was_lost_is_settled_by_reading(logs):
    admission = await leader(logs)
    await admission.append(event(1))
    logs.lose_next_reply()
    with pytest.raises(Unavailable):
        await admission.append(event(2))
    with pytest.raises(Behind):
        await admission.append(event(2))  # a blind retry
    await admission.read_on()
    assert admission.position == 2
    await admission.append(event(3))
    assert await assert_whole(admission.store) == 3


async def test_an_append_that_never_arrived_is_made_again(logs):
    admission = await leader(logs)
    logs.lose_next_request()
    with pytest.raises(Unavailable):
        await admission.append(event(1))
    await admission.append(event(1))
    assert await assert_whole(admission.store) == 1


async def test_one_key_of_two_sources_is_two_requests_in_one_append_and_later(logs):
    admission = await leader(logs)
    first, other = (event(n, key="k", request_source=source) for n, source in enumerate("ab"))
    appended = await admission.append(first, other, first)
    assert [(each.index, each.position, each.same) for each in appended.duplicates] == [
        (2, 1, True)
    ]
    again = await admission.append(event(3, key="k", request_source="c"), other)
    assert [each.position for each in again.events] == [3]
    assert [(each.index, each.position, each.same) for each in again.duplicates] == [(1, 2, True)]
