"""Workspaces through the gateway: who is let in, and what passes."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.gateway.histories import RUN
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import InvalidStatus

from headrace.bus import subjects
from headrace.bus.memory import MemoryBus
from headrace.bus.sessions import Enter, Entered, Wire
from headrace.client import ClientError
from headrace.events.asked import Workspace
from headrace.gateway.openings import TICKET_S_MAX, Openings
from headrace.node_agent.session_ports import Connection
from headrace.node_agent.sessions import carry

BASE = "/workspaces/hello-a"
LARGE = bytes(range(256)) * 8_000


async def http_app(reader, writer):
    """Answers with what it was asked, as a server that knows nothing of Headrace."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    path = first.split()[1]
    said = msgspec.json.encode({"line": first, "headers": headers, "body": len(body)})
    if path.startswith("/moved"):
        writer.write(
            b"HTTP/1.1 302 Found\r\nLocation: /there\r\nSet-Cookie: a=b; Path=/; HttpOnly\r\n"
            b"Set-Cookie: headrace_workspace=x; Path=/\r\nContent-Length: 0\r\n\r\n"
        )
    elif path == "/large":
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + LARGE)
    elif path == "/broken":
        writer.write(b"nothing of the kind\r\n\r\n")
    else:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
    await writer.drain()
    writer.close()


async def agent(world, port):
    """A node's agent that lets whoever comes to its worker's port."""
    bus, carried, asked_for = MemoryBus(world.broker, "agent-n1"), set(), []

    async def asked(message):
        enter = msgspec.json.decode(message.data, type=Enter)
        asked_for.append(enter)
        wire = Wire(
            bus,
            send_to=subjects.session_up("n1", enter.session),
            hear_from=subjects.session_down("n1", enter.session),
        )
        if not port:
            refused = Entered(refused=f"no process of the job listens at port {enter.port}")
            await bus.publish(message.reply, msgspec.json.encode(refused))
            return
        way = Connection(*await asyncio.open_connection("127.0.0.1", port))
        await wire.open()
        carried.add(asyncio.create_task(carry(wire, way)))
        await bus.publish(message.reply, msgspec.json.encode(Entered()))

    await bus.subscribe(subjects.agent_down("n1", "session"), asked)
    return asked_for


@contextlib.asynccontextmanager
async def workspace(world, *, port=None):
    """A workspace that runs, at this port (0: nowhere yet), and what its node's agent is asked."""
    first, *rest = RUN
    events = [msgspec.structs.replace(first, workspace=Workspace(port=8888)), *rest]
    await world.append(*events)
    await world.gateway.follower.reached(len(events))
    await world.answer("job.enter", lambda _: {"accepted": True, "position": 9})
    async with await asyncio.start_server(http_app, "127.0.0.1", 0) as server:
        own = server.sockets[0].getsockname()[1]
        yield await agent(world, own if port is None else port)


def ask(url, path, cookie="", body=None, headers=()):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    sent = {**dict(headers), **({"Cookie": cookie} if cookie else {})}
    connection.request("POST" if body else "GET", path, body, sent)
    response = connection.getresponse()
    said = (response.status, response.headers, response.read())
    connection.close()
    return said


async def entered(world):
    """A browser's cookie in the workspace."""
    address = await world.call(world.client().open, "hello")
    status, headers, _ = await world.call(ask, world.url, address.removeprefix(world.url))
    assert (status, headers["location"]) == (303, f"{BASE}/")
    assert "HttpOnly; SameSite=Lax" in headers["set-cookie"]
    assert f"Path={BASE}/;" in headers["set-cookie"]
    return headers["set-cookie"].partition(";")[0]


async def test_a_ticket_becomes_a_cookie_that_opens_the_workspace_and_is_good_once(world):
    async with workspace(world) as asked_for:
        address = await world.call(world.client().open, "hello")
        path = address.removeprefix(world.url)
        _, headers, _ = await world.call(ask, world.url, path)
        cookie = headers["set-cookie"].partition(";")[0]
        status, _, body = await world.call(
            ask, world.url, f"{BASE}/tree/a%20b?c=%2F", f"mine=1; {cookie}",
            headers={"Authorization": "Bearer secret", "Connection": "x-hop", "X-Hop": "1"},
        )  # fmt: skip
        said = msgspec.json.decode(body)
        assert (status, said["line"]) == (200, "GET /tree/a%20b?c=%2F HTTP/1.1")
        assert said["headers"]["cookie"] == "mine=1"
        assert said["headers"]["x-forwarded-prefix"] == BASE
        assert not {"authorization", "x-hop"} & said["headers"].keys()
        assert (asked_for[0].way, asked_for[0].port) == ("port-forward", 8888)
        again, _, _ = await world.call(ask, world.url, path)
        assert again == 403


async def test_nobody_gets_in_without_a_cookie_nor_with_that_of_another_workspace(world):
    async with workspace(world) as asked_for:
        cookie = await entered(world)
        for path, sent in (
            (f"{BASE}/", ""),
            (f"{BASE}/", "headrace_workspace=x"),
            (f"{BASE}/?headrace_ticket=x", cookie),
            ("/workspaces/other-b/", cookie),
            ("/workspaces/", cookie),
        ):
            status, _, body = await world.call(ask, world.url, path, sent)
            assert (status, b"headrace open" in body) == (403, True)
        assert asked_for == []


async def test_what_is_sent_and_answered_passes_whole(world):
    async with workspace(world):
        cookie = await entered(world)
        _, _, body = await world.call(ask, world.url, f"{BASE}/save", cookie, LARGE)
        assert msgspec.json.decode(body)["body"] == len(LARGE)
        _, _, body = await world.call(ask, world.url, f"{BASE}/large", cookie)
        assert body == LARGE


async def test_a_workspace_sends_people_and_cookies_nowhere_but_below_its_address(world):
    async with workspace(world):
        _, headers, _ = await world.call(ask, world.url, f"{BASE}/moved", await entered(world))
        assert headers["location"] == f"{BASE}/there"
        assert headers.get_all("set-cookie") == [f"a=b; HttpOnly; Path={BASE}/"]


async def test_an_application_that_does_not_speak_http_is_said_in_a_line(world):
    async with workspace(world):
        status, _, body = await world.call(ask, world.url, f"{BASE}/broken", await entered(world))
        assert (status, body.count(b"\n")) == (502, 1)


async def test_an_application_that_does_not_listen_yet_is_asked_again_by_the_browser(world):
    async with workspace(world, port=0):
        status, headers, body = await world.call(ask, world.url, f"{BASE}/", await entered(world))
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
        url = f"{world.url.replace('http', 'ws')}{BASE}/ws?x=1"
        sent = {"Cookie": cookie}
        async with connect(url, additional_headers=sent, subprotocols=["v1"], proxy=None) as ours:
            for message in ("hé", b"\x00\xff", "x" * 200_000):
                await ours.send(message)
                assert await ours.recv() == message
            assert ours.subprotocol == "v1"
        for headers, origin in (({}, None), (sent, "https://evil.example")):
            with pytest.raises(InvalidStatus, match="403"):
                async with connect(url, additional_headers=headers, origin=origin, proxy=None):
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

    def holds(self):
        return self.allowed


def test_tickets_and_cookies_end_with_their_time_and_with_the_right_to_enter():
    now, guest = [0.0], Guest()
    openings = Openings(lambda: now[0])
    cookie = openings.cookie("a", openings.ticket("a", guest))
    assert openings.opened("a", cookie)
    assert openings.opened("b", cookie) is None
    assert openings.cookie("b", openings.ticket("a", guest)) == ""
    late = openings.ticket("a", guest)
    now[0] = TICKET_S_MAX + 1
    assert openings.cookie("a", late) == ""
    guest.allowed = False
    assert openings.opened("a", cookie) is None
    guest.allowed = True
    assert openings.opened("a", cookie) is None
