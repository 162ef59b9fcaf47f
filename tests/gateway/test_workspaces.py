"""Workspaces through the gateway: who is let in, and what passes."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.gateway.histories import RUN
from tests.gateway.workspace import HOST, LARGE, ask, entered, ticket, workspace
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import InvalidStatus

from headrace.client import ClientError
from headrace.gateway.openings import TICKET_S_MAX, Openings


async def test_a_ticket_becomes_a_cookie_that_opens_the_workspace_and_is_good_once(world):
    async with workspace(world) as asked_for:
        path = await ticket(world)
        _, headers, _ = await world.call(ask, world.url, path)
        cookie = headers["set-cookie"].partition(";")[0]
        status, _, body = await world.call(
            ask, world.url, "/tree/a%20b?c=%2F", f"mine=1; headrace_workspace=x; {cookie}",
            headers={"Authorization": "Bearer secret", "Connection": "x-hop", "X-Hop": "1"},
        )  # fmt: skip
        said = msgspec.json.decode(body)
        assert (status, said["line"]) == (200, "GET /tree/a%20b?c=%2F HTTP/1.1")
        assert said["headers"]["cookie"] == "mine=1"
        assert not {"authorization", "x-hop"} & said["headers"].keys()
        assert (asked_for[0].way, asked_for[0].port) == ("port-forward", 8888)
        again, _, _ = await world.call(ask, world.url, path)
        assert again == 403


async def test_nobody_gets_in_without_a_cookie_nor_with_that_of_another_workspace(world):
    async with workspace(world) as asked_for:
        cookie = await entered(world)
        for place, sent in (
            (HOST, ""),
            (HOST, "headrace_workspace=x"),
            (f"{HOST}/?headrace_ticket=x", cookie),
            ("other-b.localhost", cookie),
            (f"a.{HOST}", cookie),
        ):
            host, _, path = place.partition("/")
            answer = partial(ask, world.url, f"/{path}", sent, host=host)
            status, _, body = await world.call(answer)
            assert (status, b"headrace open" in body) == (403, True)
        assert asked_for == []


async def test_what_is_sent_and_answered_passes_whole(world):
    async with workspace(world):
        cookie = await entered(world)
        _, _, body = await world.call(ask, world.url, "/save", cookie, LARGE)
        assert msgspec.json.decode(body)["body"] == len(LARGE)
        _, _, body = await world.call(ask, world.url, "/large", cookie)
        assert body == LARGE


async def test_what_a_workspace_says_concerns_its_own_host_alone(world):
    async with workspace(world):
        _, headers, _ = await world.call(ask, world.url, "/moved", await entered(world))
        assert headers["location"] == "/there"
        assert headers.get_all("set-cookie") == ["a=b; Path=/; HttpOnly"]
        assert "clear-site-data" not in headers
        policies = headers.get_all("content-security-policy")
        assert policies == ["default-src *", "frame-ancestors 'self'"]
        assert headers["cross-origin-resource-policy"] == "same-origin"


async def test_an_application_that_does_not_speak_http_is_said_in_a_line(world):
    async with workspace(world):
        status, _, body = await world.call(ask, world.url, "/broken", await entered(world))
        assert (status, body.count(b"\n")) == (502, 1)


async def test_an_application_that_does_not_listen_yet_is_asked_again_by_the_browser(world):
    async with workspace(world, port=0):
        status, headers, body = await world.call(ask, world.url, "/", await entered(world))
        assert (status, headers["refresh"]) == (503, "2")
        assert b"listens at port 8888" in body


async def test_a_websocket_passes_both_ways_and_pages_of_other_places_open_none(world):
    async def echo(socket):
        async for message in socket:
            await socket.send(message)

    async with (
        serve(echo, "127.0.0.1", 0, subprotocols=["v1"]) as server,
        workspace(world, port=server.sockets[0].getsockname()[1]),
    ):
        cookie = await entered(world)
        port = urlsplit(world.url).port
        opening = partial(connect, f"ws://{HOST}:{port}/ws?x=1", host="127.0.0.1", proxy=None)
        sent = {"Cookie": cookie}
        own = f"http://{HOST}:{port}"
        async with opening(additional_headers=sent, subprotocols=["v1"], origin=own) as ours:
            for message in ("hé", b"\x00\xff", "x" * 200_000):
                await ours.send(message)
                assert await ours.recv() == message
            assert ours.subprotocol == "v1"
        elsewhere = ("https://evil.example", "null", f"http://other-b.localhost:{port}")
        for headers, origin in (({}, None), *((sent, origin) for origin in elsewhere)):
            with pytest.raises(InvalidStatus, match="403"):
                async with opening(additional_headers=headers, origin=origin):
                    pass


async def test_what_is_no_workspace_is_not_opened(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(len(RUN))
    with pytest.raises(ClientError, match="is no workspace; headrace port-forward hello-a PORT"):
        await world.call(world.client().open, "hello")
    with pytest.raises(ClientError, match="token"):
        await world.call(world.client("wrong").open, "hello")


class Guest:
    """Somebody who is let in, until they are not."""

    allowed = True
    name = "guest"

    def holds(self):
        return self.allowed


def test_tickets_and_cookies_end_with_their_time_and_with_the_right_to_enter():
    now, guest = [0.0], Guest()
    openings = Openings(lambda: now[0])
    cookie = openings.cookie("a", openings.ticket("a", guest))
    assert openings.opened("a", [cookie])
    assert openings.opened("b", [cookie]) is None
    assert openings.cookie("b", openings.ticket("a", guest)) == ""
    late = openings.ticket("a", guest)
    now[0] = TICKET_S_MAX + 1
    assert openings.cookie("a", late) == ""
    guest.allowed = False
    assert openings.opened("a", [cookie]) is None
    guest.allowed = True
    assert openings.opened("a", [cookie]) is None
