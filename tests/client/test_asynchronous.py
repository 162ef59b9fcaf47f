"""The client that is awaited, against a real gateway."""

import asyncio
import threading

import pytest
from tests.cli.program import accept, in_log
from tests.gateway.histories import admitted, finished, joined, requested
from tests.gateway.world import TOKEN, served_world

from headrace.client import AsyncClient, Client, NotFound, Unreachable

DEADLINE_S = 60


@pytest.fixture
async def world():
    async with served_world() as served:
        yield served


@pytest.fixture
async def client(world):
    async with AsyncClient(world.url, TOKEN, "vision") as client:
        yield client


async def test_a_job_is_submitted_and_followed_to_its_end(world, client):
    await accept(world, "job.submit", job="hello-a")
    answer = await client.submit({"name": "hello", "command": ["true"]}, key="hello-1")
    assert (answer.job, answer.key) == ("hello-a", "hello-1")
    await in_log(world, joined(), requested(), admitted())
    seen = []

    async def follow():
        async for event in client.events(job="hello-a", follow=True):
            seen.append(event.type)
            if event.type.startswith("job.finished."):
                return

    following = asyncio.create_task(follow())
    await in_log(world, finished())
    await asyncio.wait_for(following, DEADLINE_S)
    assert seen == ["job.requested.v1", "job.admitted.v1", "job.finished.v1"]


async def test_many_calls_run_at_once(world, client):
    await in_log(world, joined(), requested(), admitted())
    found = await asyncio.gather(*(client.job("hello-a") for _ in range(50)))
    assert {description.job.job for description in found} == {"hello-a"}


async def test_what_is_not_there_is_an_error_of_its_own(client):
    with pytest.raises(NotFound, match="no job nobody is known"):
        await client.job("nobody")


async def test_a_stream_of_a_platform_that_is_not_there_raises():
    async with AsyncClient("http://127.0.0.1:1") as client:
        with pytest.raises(Unreachable):
            await anext(client.events(follow=True))


async def test_leaving_the_loop_ends_the_stream(world, client):
    await in_log(world, joined(), requested(), admitted())
    before = set(threading.enumerate())
    stream = client.events(follow=True)
    async for _ in stream:
        break
    begun = [thread for thread in threading.enumerate() if thread not in before]
    await stream.aclose()
    for thread in begun:
        if thread.daemon:
            await asyncio.to_thread(thread.join, DEADLINE_S)
            assert not thread.is_alive()


async def test_pages_are_read_to_their_end(world, client):
    await in_log(world, joined(), requested(), admitted())
    assert [event.position async for event in client.events()] == [1, 2, 3]


def test_every_call_of_the_client_can_be_awaited():
    beside = {"copy", "url", "after_position", "end_streams", "enter", "open"}
    missing = {name for name in dir(Client) if not name.startswith("_")} - set(dir(AsyncClient))
    assert missing == beside
