"""The door at which durable publishers ask: what they hold, what comes again, when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

import msgspec
import pytest

from headrace.bus import durables, subjects
from headrace.bus.interface import StreamSpec
from headrace.bus.nats import NatsBus
from headrace.bus.subjects import publisher_inbox
from headrace.runtime.pipelines import outcomes_door
from headrace.runtime.pipelines.durable import Durable
from headrace.runtime.pipelines.outcomes_door import STREAM, OutcomesDoor

HUNG_S = 60
DAY_US = 86_400_000_000


@pytest.fixture
async def bus(nats_url):
    """A publisher's connection, to a server with an empty stream of outcomes and the door before it."""
    async with contextlib.AsyncExitStack() as stack:
        made = [await NatsBus.connect(nats_url, inbox_prefix=inbox) for inbox in
                ("_INBOX_door", publisher_inbox("ads", "etl"))]  # fmt: skip
        for each in made:
            stack.push_async_callback(each.close)
        await made[0].ensure_stream(
            StreamSpec(
                name=STREAM, subjects=("headrace.event.>",), age_s_max=600, bytes_max=10_000_000
            )
        )
        stack.push_async_callback(made[0].delete_stream, STREAM)
        door = asyncio.create_task(OutcomesDoor(made[0]).run())
        try:
            yield made[1]
        finally:
            door.cancel()


def durable(*, ends_in_us=DAY_US):
    now_us = time.time_ns() // 1_000
    return Durable(project="ads", name="etl", since_us=now_us, expires_at_us=now_us + ends_in_us)


async def told(bus, *known, until):
    """Say who is durable, as admission does again and again, until so many have a consumer."""
    async with asyncio.timeout(HUNG_S):
        while len(await bus.durables(STREAM).names()) != until:
            await bus.publish(subjects.DURABLE, msgspec.json.encode(known))
            await asyncio.sleep(0.05)


async def happen(bus, *names):
    for name in names:
        await bus.store("headrace.event.ads.job.finished.v1", json.dumps(name).encode())


async def asked(bus, **question):
    body = json.dumps({"wait_s": 0.1, **question}).encode()
    reply = await bus.request("headrace.outcomes.ads.etl.next", body, timeout_s=HUNG_S)
    return json.loads(reply.data)


def data_of(answer):
    return [each["event"]["data"] for each in answer["events"]]


async def test_what_was_acknowledged_comes_no_more_and_the_rest_comes_again(bus, monkeypatch):
    monkeypatch.setattr(durables, "ACK_WAIT_S", 0.5)
    await told(bus, durable(), until=1)
    await happen(bus, "first", "second")
    first, second = (await asked(bus, wait_s=10))["events"]
    assert await asked(bus, ack=[first["ack"]], most=0) == {"events": []}
    again = await asked(bus, wait_s=10)
    assert [each["event"]["data"] for each in again["events"]] == [second["event"]["data"]]


async def test_one_who_acknowledges_nothing_holds_no_more_than_so_many(bus, monkeypatch):
    monkeypatch.setattr(durables, "UNACKNOWLEDGED_MAX", 2)
    await told(bus, durable(), until=1)
    await happen(bus, 1, 2, 3)
    held = (await asked(bus, wait_s=10))["events"]
    assert [each["event"]["data"] for each in held] == [1, 2]
    assert data_of(await asked(bus)) == []
    assert data_of(await asked(bus, ack=[held[0]["ack"]], wait_s=10)) == [3]


async def test_an_answer_has_room_for_so_much_and_the_next_has_the_rest(bus, monkeypatch):
    monkeypatch.setattr(outcomes_door, "ANSWER_BYTES_MAX", 2_000)
    monkeypatch.setattr(durables, "ACK_WAIT_S", 0.5)
    await told(bus, durable(), until=1)
    await happen(bus, "a" * 1_000, "b" * 1_000)
    first = (await asked(bus, wait_s=10))["events"]
    assert [each["event"]["data"][0] for each in first] == ["a"]
    rest = await asked(bus, ack=[first[0]["ack"]], wait_s=10)
    assert [text[0] for text in data_of(rest)] == ["b"]


async def test_so_many_questions_of_one_publisher_wait_at_a_time(bus):
    await told(bus, durable(), until=1)
    most = outcomes_door.WAITING_OF_ONE_MAX
    answers = await asyncio.gather(*(asked(bus, wait_s=2) for _ in range(most + 1)))
    refused = [answer for answer in answers if "message" in answer]
    assert len(refused) == 1
    assert "too many are waiting" in refused[0]["message"]


async def test_a_place_ends_with_the_login_and_is_told_of_as_none(bus):
    await told(bus, durable(), until=1)
    await told(bus, durable(ends_in_us=-1), until=0)
    assert "holds no durable place here" in (await asked(bus))["message"]


async def test_a_place_that_the_bus_lost_is_none_until_it_is_made_anew(
    bus,
):
    mine = durable()
    await told(bus, mine, until=1)
    await bus.durables(STREAM).delete(mine.consumer)
    assert "holds no durable place here" in (await asked(bus))["message"]
    await told(bus, mine, until=1)
    assert await asked(bus) == {"events": []}
