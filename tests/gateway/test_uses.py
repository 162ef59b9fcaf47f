"""What of a browser's requests is use of a workspace, and how it is told."""

import asyncio

import msgspec
import pytest
from tests.gateway.workspace import ask, entered, workspace
from tests.gateway.world import TIMEOUT_S

from headrace.bus import subjects
from headrace.bus.interface import BusError
from headrace.bus.uses import Uses

PAGE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
VISIT = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture
async def told(world):
    """What the gateway says when it is asked to."""
    heard = asyncio.Queue()

    async def hear(message):
        heard.put_nowait(msgspec.json.decode(message.data, type=Uses).jobs)

    await world.bus.subscribe(subjects.USES, hear)

    async def tell():
        await world.gateway.uses.say()
        await world.gateway.uses.say()
        async with asyncio.timeout(TIMEOUT_S):
            return [await heard.get(), await heard.get()]

    return tell


@pytest.mark.parametrize(
    ("asked", "headers", "used"),
    [
        (("/lab", None), VISIT, True),
        (("/api/sessions", b"x"), PAGE, True),
        (("/api/kernels", None), {}, True),  # of a program, which does not say what it is for
        (("/api/kernels", None), PAGE, False),
        (("/lab/api/workspaces/default", b"x"), PAGE, False),
    ],
)
async def test_a_page_that_is_opened_or_changes_something_is_use_and_one_that_looks_again_is_not(
    world, told, asked, headers, used
):
    async with workspace(world, app="jupyter"):
        cookie = await entered(world)
        path, body = asked
        await world.call(ask, world.url, path, cookie, body, headers)
        assert await told() == [("hello-a",) if used else (), ()]


async def test_what_could_not_be_told_is_told_the_next_time(world, told):
    world.gateway.uses.use("hello-a")
    world.broker.disconnect("gateway")
    with pytest.raises(BusError):
        await world.gateway.uses.say()
    world.broker.connect("gateway")
    assert await told() == [("hello-a",), ()]
