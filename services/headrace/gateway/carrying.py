"""HTTP and WebSocket through a session: a browser's request to a workspace, and the answer back.

Rule: one connection a request, at the pace of the slower end; nothing is kept of what is said. Sources:
the ASGI specification (HTTP and WebSocket messages), RFC 9112 through h11, RFC 6455 through websockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple

import h11
from litestar.types import Receive, Send
from websockets.client import ClientProtocol
from websockets.datastructures import Headers as SocketHeaders
from websockets.exceptions import InvalidHandshake
from websockets.frames import CloseCode, Opcode
from websockets.frames import Frame as SocketFrame
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from headrace.bus.sessions import DATA_BYTES_MAX, Broken, Frame, Wire
from headrace.gateway.carried_headers import Headers, from_workspace
from headrace.gateway.server import MESSAGE_BYTES_MAX

SAID_TOO_EARLY = "the workspace closed the connection before it answered"


class Failed(Exception):
    """The workspace did not answer in the way of its protocol. The message says how."""


class Handshake(NamedTuple):
    """How a WebSocket is asked for."""

    target: str
    headers: Headers
    protocols: list[str]


class Stream:
    """The bytes of a session that reaches a TCP port."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def write(self, data: bytes) -> None:
        """Send all of it. Raises `Broken`."""
        for start in range(0, len(data), DATA_BYTES_MAX):
            await self._wire.send(Frame("data", data[start : start + DATA_BYTES_MAX]))

    async def pieces(self) -> AsyncIterator[bytes]:
        """What comes, until the other end closes. Raises `Broken`."""
        while (frame := await self._wire.receive()).kind != "exit":
            if frame.data:
                yield frame.data


async def carry_http(wire: Wire, request: h11.Request, receive: Receive, send: Send) -> None:
    """One request and its answer. Raises `Failed` while nothing was answered yet."""
    connection, stream = h11.Connection(h11.CLIENT), Stream(wire)
    sending = asyncio.create_task(_ask(connection, stream, request, receive))
    answering = asyncio.create_task(_answer(connection, stream, send))
    try:
        done, _ = await asyncio.wait((sending, answering), return_when=asyncio.FIRST_COMPLETED)
        if sending in done and sending.result():
            return  # the browser has left
        await answering
    except (Broken, h11.ProtocolError) as error:
        raise Failed(f"the workspace does not answer as HTTP servers do: {error}") from error
    finally:
        await _ended(sending, answering)


async def _ask(
    connection: h11.Connection, stream: Stream, request: h11.Request, receive: Receive
) -> bool:
    """Send the request; then wait for the browser to leave, when it asked for everything."""
    await stream.write(connection.send(request) or b"")
    has_more = True
    while has_more:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return True
        if data := message.get("body", b""):
            await stream.write(connection.send(h11.Data(data=data)) or b"")
        has_more = message.get("more_body", False)
    await stream.write(connection.send(h11.EndOfMessage()) or b"")
    while (await receive())["type"] != "http.disconnect":
        pass
    return True


async def _answer(connection: h11.Connection, stream: Stream, send: Send) -> None:
    is_begun = False
    async for event in _events(connection, stream):
        if isinstance(event, h11.Response):
            headers = from_workspace(event.headers)
            start = {"type": "http.response.start", "status": event.status_code, "headers": headers}
            await send(start)  # type: ignore[arg-type]  # as ASGI has it
            is_begun = True
        elif isinstance(event, h11.Data):
            await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
    if not is_begun:
        raise Failed(SAID_TOO_EARLY)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _events(connection: h11.Connection, stream: Stream) -> AsyncIterator[h11.Event]:
    """What the workspace answers, to the end of the message."""
    pieces = stream.pieces()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await anext(pieces, b""))
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed) or event is h11.PAUSED:
            return
        elif isinstance(event, h11.Event):
            yield event


async def carry_socket(
    wire: Wire, handshake: Handshake, receive: Receive, send: Send, used: Callable[[], None]
) -> None:
    """A WebSocket's messages both ways, until either end closes; `used` hears of each. Raises
    `Failed` before it opens.
    """
    stream = Stream(wire)
    protocol = ClientProtocol(
        parse_uri(f"ws://workspace{handshake.target}"),
        subprotocols=[Subprotocol(name) for name in handshake.protocols] or None,
        max_size=MESSAGE_BYTES_MAX,
    )
    pieces = stream.pieces()
    await _opened(protocol, stream, pieces, handshake.headers)
    chosen = protocol.subprotocol
    await send({"type": "websocket.accept", "subprotocol": chosen, "headers": []})
    ways = (_down(protocol, stream, receive, used), _up(protocol, stream, pieces, send, used))
    await _first_of(*ways)


async def _opened(
    protocol: ClientProtocol, stream: Stream, pieces: AsyncIterator[bytes], headers: Headers
) -> None:
    request = protocol.connect()
    own = {name.lower() for name in request.headers}
    passed = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in headers]
    request.headers = SocketHeaders(
        [*((n, v) for n, v in request.headers.raw_items() if n.lower() != "host"),
         *((n, v) for n, v in passed if n == "host" or n not in own)]
    )  # fmt: skip
    protocol.send_request(request)
    await _flush(protocol, stream)
    try:
        async for data in pieces:
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Response):
                    if protocol.handshake_exc is not None:
                        raise Failed(f"the workspace opens no WebSocket: {protocol.handshake_exc}")
                    return
    except (Broken, InvalidHandshake) as error:
        raise Failed(f"the workspace opens no WebSocket: {error}") from error
    raise Failed(SAID_TOO_EARLY)


async def _down(
    protocol: ClientProtocol, stream: Stream, receive: Receive, used: Callable[[], None]
) -> None:
    """What the browser says."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            protocol.send_close(CloseCode.GOING_AWAY)
            await _flush(protocol, stream)
            return
        if message["type"] != "websocket.receive":
            continue
        used()
        text = message.get("text")
        if text is not None:
            protocol.send_text(text.encode())
        else:
            protocol.send_binary(message.get("bytes") or b"")
        await _flush(protocol, stream)


async def _up(
    protocol: ClientProtocol,
    stream: Stream,
    pieces: AsyncIterator[bytes],
    send: Send,
    used: Callable[[], None],
) -> None:
    """What the workspace says."""
    parts, kind = bytearray(), Opcode.BINARY
    while True:
        for event in protocol.events_received():
            if not isinstance(event, SocketFrame) or event.opcode not in _SAID:
                continue
            kind = event.opcode if event.opcode is not Opcode.CONT else kind
            parts += event.data
            if event.fin:
                used()
                await send(_message(kind, bytes(parts)))
                parts.clear()
        await _flush(protocol, stream)
        data = b"" if protocol.close_expected() else await anext(pieces, b"")
        if not data:
            code = protocol.close_code if protocol.close_rcvd else CloseCode.GOING_AWAY
            await send({"type": "websocket.close", "code": code or 1000, "reason": ""})
            return
        protocol.receive_data(data)


_SAID = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


def _message(kind: Opcode, data: bytes) -> Any:
    if kind is Opcode.TEXT:
        return {"type": "websocket.send", "text": data.decode(errors="replace"), "bytes": None}
    return {"type": "websocket.send", "text": None, "bytes": data}


async def _flush(protocol: ClientProtocol, stream: Stream) -> None:
    for data in protocol.data_to_send():
        await stream.write(data)


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    """Both ways until one of them ends."""
    works = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            if not isinstance(work.exception(), Broken):
                work.result()
    finally:
        await _ended(*works)


async def _ended(*works: asyncio.Task[Any]) -> None:
    for work in works:
        work.cancel()
    await asyncio.gather(*works, return_exceptions=True)
