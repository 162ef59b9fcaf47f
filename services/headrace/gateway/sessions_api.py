"""`/v1/jobs/{job}/session`: a WebSocket into a running job.

Rule: who did not submit the job gets in only once that is on record. The first message is a
`Visit` and is answered by an `Answer`, both in JSON; then frames go both ways, in MessagePack.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from litestar import WebSocket, websocket
from litestar.exceptions import WebSocketException

from headrace.bus.sessions import Broken, Frame, Wire
from headrace.client.model import Answer
from headrace.client.session_model import SessionPiece, Visit
from headrace.gateway.caller import By, Caller, may
from headrace.gateway.entering import recorded, wire_to
from headrace.gateway.errors import GatewayError, TooMany
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import Index, JobName

_VISITS = msgspec.json.Decoder(Visit)
_PIECES = msgspec.msgpack.Decoder(SessionPiece)


@websocket(
    ["/jobs/{job:str}/session", "/jobs/{job:str}/{index:int}/session"], opt=may("enter", "job")
)
async def job_session(
    socket: WebSocket[Any, Any, Any], gateway: Gate, by: By, job: JobName, index: Index = None
) -> None:
    """Run a program beside a worker, follow it, or reach one of its ports. `job` may be a prefix."""
    await socket.accept()
    with contextlib.suppress(WebSocketException, Broken):  # one of the two ends has left
        try:
            gateway.streams.check(by.name)
        except TooMany as error:
            await _say(socket, error.answer())
            await socket.close()
            return
        with gateway.streams.taken(by.name):
            await _session(socket, gateway, by, (job, index))


async def _session(
    socket: WebSocket[Any, Any, Any], gateway: Gateway, by: Caller, wanted: tuple[str, int | None]
) -> None:
    try:
        visit = _VISITS.decode(await socket.receive_text())
        found = await by.job(*wanted)
        await recorded(by, found, visit)
        wire = await wire_to(gateway, found, visit)
    except (GatewayError, msgspec.MsgspecError) as error:
        answer = error.answer() if isinstance(error, GatewayError) else None
        await _say(socket, answer or Answer(accepted=False, message=f"no visit: {error}"))
        await socket.close()
        return
    try:
        await _say(socket, Answer(accepted=True))
        await _carry(socket, by, wire, partial(gateway.uses.use, found.job))
    finally:
        await wire.close()
    await socket.close()


async def _carry(
    socket: WebSocket[Any, Any, Any], by: Caller, wire: Wire, used: Callable[[], None]
) -> None:
    """Frames both ways, until the worker's end has said its last, somebody leaves, or whoever is
    inside may not be there any more.
    """
    ways = (_down(socket, wire, used), _up(socket, wire), by.until_denied())
    works = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            work.result()
    finally:
        for work in works:
            work.cancel()


async def _down(socket: WebSocket[Any, Any, Any], wire: Wire, used: Callable[[], None]) -> None:
    while True:
        piece = _PIECES.decode(await socket.receive_bytes())
        used()
        await wire.send(Frame(piece.kind, piece.data, piece.value))


async def _up(socket: WebSocket[Any, Any, Any], wire: Wire) -> None:
    try:
        while True:
            frame = await wire.receive()
            await _tell(socket, SessionPiece(frame.kind, frame.data, frame.value))
            if frame.kind == "exit":
                return
    except Broken as broken:
        await _tell(socket, SessionPiece("lost", str(broken).encode()))


async def _tell(socket: WebSocket[Any, Any, Any], piece: SessionPiece) -> None:
    await socket.send_bytes(msgspec.msgpack.encode(piece))


async def _say(socket: WebSocket[Any, Any, Any], answer: Answer) -> None:
    await socket.send_text(msgspec.json.encode(answer).decode())
