"""How many changes are taken at a time, and what the others are told."""

import asyncio

import pytest
from tests.gateway.test_api import raw

from headrace.gateway.errors import TooMany
from headrace.gateway.limiting import Room

BODY = b'{"name": "t", "command": ["true"]}'


async def test_one_change_more_than_there_is_room_for_is_told_to_come_again(world, monkeypatch):
    monkeypatch.setattr("headrace.gateway.limiting.CHANGES_OF_ONE_MAX", 2)
    asked, held, is_slow = asyncio.Semaphore(0), [], True

    async def reply(message):
        await world.bus.publish(message.reply, b'{"accepted": true, "position": 0, "job": "t-1"}')

    async def owner(message):
        if not is_slow:
            await reply(message)
            return
        held.append(message)
        asked.release()

    await world.bus.subscribe("headrace.gateway.*.job.submit", owner)
    submit = (raw, world, "POST", "/v1/jobs", BODY)
    waiting = [asyncio.create_task(world.call(*submit)) for _ in range(2)]
    await asked.acquire()
    await asked.acquire()
    status, said = await world.call(*submit)
    assert status == 429
    assert b"2 requests of admin wait for an answer" in said
    assert (await world.call(retry_after, world))[0] == "1"
    # a client comes again by itself, and is taken once there is room
    patient = asyncio.create_task(world.call(world.client().submit, BODY))
    is_slow = False
    for message in held:
        await reply(message)
    assert [each[0] for each in await asyncio.gather(*waiting)] == [201, 201]
    assert (await patient).job == "t-1"


def retry_after(world):
    import http.client
    from urllib.parse import urlsplit

    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=5)
    connection.request("POST", "/v1/jobs", BODY, {"Authorization": "Bearer a-token-for-tests"})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.getheader("Retry-After"), response.status


def test_room_is_given_back_and_nobody_takes_it_all(monkeypatch):
    monkeypatch.setattr("headrace.gateway.limiting.CHANGES_OF_ONE_MAX", 1)
    monkeypatch.setattr("headrace.gateway.limiting.CHANGES_MAX", 2)
    room = Room()
    with room.taken("ada"):
        with pytest.raises(TooMany, match="1 requests of ada"), room.taken("ada"):
            pass
        with (
            room.taken("bob"),
            pytest.raises(TooMany, match="2 requests wait"),
            room.taken("eve"),
        ):
            pass
    with room.taken("ada"):
        pass
