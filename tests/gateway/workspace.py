"""A workspace behind a gateway, and a browser in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
from urllib.parse import urlsplit

import msgspec
from tests.gateway.histories import RUN

from headrace.bus import subjects
from headrace.bus.memory import MemoryBus
from headrace.bus.sessions import Enter, Entered, Wire
from headrace.events.asked import Workspace
from headrace.node_agent.session_ports import Connection
from headrace.node_agent.sessions import carry

HOST = "hello-a.localhost"
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
            b'HTTP/1.1 302 Found\r\nLocation: /there\r\nClear-Site-Data: "cookies"\r\n'
            b"Set-Cookie: a=b; Path=/; Domain=localhost; HttpOnly\r\n"
            b"Content-Security-Policy: default-src *\r\n"
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
async def workspace(world, *, port=None, app=""):
    """A workspace that runs, at this port (0: nowhere yet), and what its node's agent is asked."""
    first, *rest = RUN
    events = [msgspec.structs.replace(first, workspace=Workspace(port=8888, app=app)), *rest]
    await world.append(*events)
    await world.gateway.follower.reached(len(events))
    await world.answer("job.enter", lambda _: {"accepted": True, "position": 9})
    async with await asyncio.start_server(http_app, "127.0.0.1", 0) as server:
        own = server.sockets[0].getsockname()[1]
        yield await agent(world, own if port is None else port)


def ask(url, path, cookie="", body=None, headers=(), *, host=HOST):
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc, timeout=60)
    sent = {"Host": f"{host}:{at.port}", **dict(headers)} | ({"Cookie": cookie} if cookie else {})
    connection.request("POST" if body else "GET", path, body, sent)
    response = connection.getresponse()
    said = (response.status, response.headers, response.read())
    connection.close()
    return said


async def ticket(world):
    """Where a browser enters the workspace."""
    address = urlsplit(await world.call(world.client().open, "hello"))
    assert address.netloc == f"{HOST}:{urlsplit(world.url).port}"
    return f"{address.path}?{address.query}"


async def entered(world):
    """A browser's cookie in the workspace."""
    status, headers, _ = await world.call(ask, world.url, await ticket(world))
    assert (status, headers["location"]) == (303, "/")
    assert "; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax" in headers["set-cookie"]
    assert "domain" not in headers["set-cookie"].lower()
    return headers["set-cookie"].partition(";")[0]
