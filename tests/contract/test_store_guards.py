"""What every log promises about devices and repeated requests."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.services import TYPES, assert_whole, booking, event, leader

from headrace.events.guards import Guard
from headrace.store.interface import GuardRefused

# guards


async def test_a_device_is_never_booked_above_its_limit(logs):
    placement = await leader(logs, "placement")
    await placement.append(booking("gpu/a", 600), booking("gpu/a", 400))
    with pytest.raises(GuardRefused) as refused:
        await placement.append(event(7, "placement"), booking("gpu/b", 10), booking("gpu/a", 1))
    assert refused.value.key == "gpu/a"
    assert (await placement.store.head()).position == 2
    await placement.append(booking("gpu/b", 1000))  # nothing of the refused append was booked


async def test_a_first_booking_above_the_limit_is_refused(logs):
    placement = await leader(logs, "placement")
    with pytest.raises(GuardRefused):
        await placement.append(booking("gpu/a", 501, limit=500))
    with pytest.raises(GuardRefused):
        await placement.append(booking("gpu/a", 600), booking("gpu/a", 401))
    await placement.append(booking("gpu/a", 1000))


async def test_the_first_key_in_order_is_the_one_named(logs):
    placement = await leader(logs, "placement")
    with pytest.raises(GuardRefused) as refused:
        await placement.append(booking("gpu/b", 2000), booking("gpu/a", 2000))
    assert refused.value.key == "gpu/a"


async def test_giving_back_always_passes_and_stops_at_zero(logs):
    placement = await leader(logs, "placement")
    await placement.append(booking("gpu/a", -700))
    await placement.append(booking("gpu/a", 1000))
    await placement.append(booking("gpu/a", -400, limit=100))
    with pytest.raises(GuardRefused):
        await placement.append(booking("gpu/a", 401))
    await placement.append(booking("gpu/a", 400))


async def test_giving_back_and_booking_in_one_append_are_summed(logs):
    placement = await leader(logs, "placement")
    await placement.append(booking("gpu/a", 1000))
    await placement.append(booking("gpu/a", 1000), booking("gpu/a", -1000))
    with pytest.raises(GuardRefused):
        await placement.append(booking("gpu/a", -500), booking("gpu/a", 501))


# requests


async def test_a_repeated_request_is_left_out_and_names_the_original(logs):
    admission = await leader(logs)
    await admission.append(event(0), event(1, key="k", same_as=b"h"))
    appended = await admission.append(
        event(2), event(3, key="k", same_as=b"h"), event(4, key="k", same_as=b"other"), event(5)
    )
    assert appended.indexes == (0, 3)
    assert [e.stream for e in appended.events] == ["job/2", "job/5"]
    assert [(d.index, d.position, d.same) for d in appended.duplicates] == [
        (1, 2, True),
        (2, 2, False),
    ]
    assert await assert_whole(admission.store) == 4


async def test_a_request_repeated_within_one_append_is_left_out(logs):
    admission = await leader(logs)
    appended = await admission.append(
        event(0),
        event(1, key="k", same_as=b"h"),
        event(2, key="k", same_as=b"h"),
        event(3),
        event(4, key="k", same_as=b"other"),
    )
    assert appended.indexes == (0, 1, 3)
    assert [(d.index, d.position, d.same) for d in appended.duplicates] == [
        (2, 2, True),
        (4, 2, False),
    ]
    assert await assert_whole(admission.store) == 3


async def test_the_same_key_in_another_project_is_another_request(logs):
    admission = await leader(logs)
    appended = await admission.append(event(1, key="k"), event(2, key="k", project="ads"))
    assert appended.duplicates == ()


async def test_a_key_is_one_for_all_services_of_a_project(logs):
    admission = await leader(logs)
    quota = await leader(logs, "quota")
    await admission.append(event(1, key="k"))
    appended = await quota.append(event(2, "quota", key="k"))
    assert [(d.index, d.position, d.same) for d in appended.duplicates] == [(0, 1, False)]


async def test_services_that_record_one_request_at_once_record_it_once(logs):
    leaders = [await leader(logs, service) for service in TYPES]
    answers = await asyncio.gather(
        *(one.append(event(1, one.service, key="k", same_as=b"h")) for one in leaders)
    )
    assert sorted(len(answer.events) for answer in answers) == [0, 0, 0, 1]
    assert {d.position for answer in answers for d in answer.duplicates} == {1}


async def test_an_append_of_repeated_requests_alone_changes_nothing(logs):
    admission = await leader(logs)
    await admission.append(event(1, key="k"))
    quota = await leader(logs, "quota")
    await quota.append(event(2, "quota"))
    appended = await admission.append(event(1, key="k"))
    assert (appended.events, len(appended.duplicates)) == ((), 1)
    assert (await admission.store.head()).position == 2
    await admission.append(event(3))  # its own last append is still the first


async def test_what_is_left_out_books_nothing(logs):
    placement = await leader(logs, "placement")
    guards = [Guard(key="gpu/a", delta=600)]
    await placement.append(event(1, "placement", key="k", guards=guards))
    await placement.append(event(1, "placement", key="k", guards=guards))
    await placement.append(booking("gpu/a", 400))


async def test_a_refused_append_leaves_its_requests_to_be_made_again(logs):
    placement = await leader(logs, "placement")
    with pytest.raises(GuardRefused):
        await placement.append(event(1, "placement", key="k"), booking("gpu/a", 1001))
    assert (await placement.append(event(1, "placement", key="k"))).duplicates == ()


async def test_a_request_is_forgotten_after_thirty_days(logs):
    admission = await leader(logs)
    await admission.append(event(1, key="younger"), event(2, key="older"))
    await logs.age_request("younger", days=29)
    await logs.age_request("older", days=31)
    appended = await admission.append(event(3, key="younger"), event(4, key="older"))
    assert appended.indexes == (1,)
    assert [d.index for d in appended.duplicates] == [0]
    again = await admission.append(event(4, key="older"))
    assert [(d.position, d.same) for d in again.duplicates] == [(3, True)]


async def test_a_forgotten_request_is_recorded_anew_even_before_its_row_was_cleared_away(logs):
    admission = await leader(logs)
    await admission.append(*(event(n, key=f"k{n}") for n in range(6)))
    for n in range(6):
        await logs.age_request(f"k{n}", days=40 - n)
    await admission.append(event(7, key="k5"))
    again = await admission.append(event(7, key="k5"), event(8, key="k0"))
    assert [(d.position, d.same) for d in again.duplicates] == [(7, True)]
    assert again.indexes == (1,)
