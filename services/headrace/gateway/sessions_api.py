"""`/v1/jobs/{job}/session`: a WebSocket into a running job.

Rule: who did not submit the job gets in only once that is on record. The first message is a
`Visit` and is answered by an `Answer`, both in JSON; then frames go both ways, in MessagePack.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any

import msgspec
from litestar import WebSocket, websocket
from litestar.exceptions import WebSocketException

from headrace.bus import subjects
from headrace.bus.interface import BusError
from headrace.bus.sessions import OPEN_S_MAX, Broken, Enter, Entered, Frame, Wire
from headrace.client.model import ENDED, Answer, SessionPiece, Visit
from headrace.events.gangs import Worker
from headrace.gateway.caller import By, Caller, may
from headrace.gateway.errors import BadRequest, GatewayError, NotReady
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import Index, JobName
from headrace.gateway.projection import Job

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
            visit = _VISITS.decode(await socket.receive_text())
            wire = await _enter(gateway, by, await by.job(job, index), visit)
        except (GatewayError, msgspec.MsgspecError) as error:
            answer = error.answer() if isinstance(error, GatewayError) else None
            await _say(socket, answer or Answer(accepted=False, message=f"no visit: {error}"))
            await socket.close()
            return
        try:
            await _say(socket, Answer(accepted=True))
            await _carry(socket, by, wire)
        finally:
            await wire.close()
        await socket.close()


async def _enter(gateway: Gateway, by: Caller, job: Job, visit: Visit) -> Wire:
    """A wire to the worker. Raises `GatewayError`."""
    worker = _worker(job, visit)
    if by.subject.actor != job.user:
        what = visit.command[0] if visit.command else str(visit.port or "")
        body = {"job": job.job, "way": visit.way, "rank": visit.rank, "what": what}
        answer = await by.ask("job.enter", job.project, body, key=visit.key)
        if not answer.accepted:
            raise _NotLetIn(answer)
    session = secrets.token_hex(16)
    enter = Enter(
        session=session, way=visit.way, job=job.job, attempt=job.attempt, rank=visit.rank,
        process=visit.process, command=visit.command, rows=visit.rows, columns=visit.columns,
        port=visit.port,
    )  # fmt: skip
    wire = Wire(
        gateway.bus,
        send_to=subjects.session_down(worker.node, session),
        hear_from=subjects.session_up(worker.node, session),
    )
    try:
        await wire.open()
        subject = subjects.agent_down(worker.node, "session")
        reply = await gateway.bus.request(subject, msgspec.json.encode(enter), timeout_s=OPEN_S_MAX)
        refused = msgspec.json.decode(reply.data, type=Entered).refused
    except BusError as error:
        await wire.close()
        raise NotReady(f"node {worker.node} does not answer") from error
    if refused:
        await wire.close()
        raise BadRequest("job", job.job, refused)
    return wire


def _worker(job: Job, visit: Visit) -> Worker:
    """The worker that is meant. Raises `BadRequest`."""
    if job.tasks:
        raise BadRequest("job", job.job, "is many; name one", f"{job.job}/0")
    if job.state in ENDED or not job.workers:
        raise BadRequest("job", job.job, f"does not run: it is {job.state}")
    found = next((worker for worker in job.workers if worker.rank == visit.rank), None)
    if found is None:
        ranks = f"0 to {len(job.workers) - 1}" if len(job.workers) > 1 else "0"
        raise BadRequest("rank", str(visit.rank), "is not a worker of this job", ranks)
    return found


async def _carry(socket: WebSocket[Any, Any, Any], by: Caller, wire: Wire) -> None:
    """Frames both ways, until the worker's end has said its last, somebody leaves, or whoever is
    inside may not be there any more.
    """
    ways = (_down(socket, wire), _up(socket, wire), by.until_denied())
    works = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            work.result()
    finally:
        for work in works:
            work.cancel()


async def _down(socket: WebSocket[Any, Any, Any], wire: Wire) -> None:
    while True:
        piece = _PIECES.decode(await socket.receive_bytes())
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


class _NotLetIn(GatewayError):
    """Admission's own words."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self._answer = answer

    def answer(self) -> Answer:
        return self._answer
