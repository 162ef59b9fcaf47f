"""`/v1/jobs/{job}/opening` and `/workspaces/{job}/…`: a browser's way into a workspace.

Rule: the token stays with who asks for the opening; the address that is opened has a ticket that is
good once, and is exchanged for a cookie that scripts cannot read. What a workspace answers comes from
the gateway's own origin: whoever opens another's workspace lets its pages reach those that they have
open themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Coroutine
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import h11
from litestar import asgi, post
from litestar.types import Receive, Scope, Send

from headrace.client.session_model import Opening, Visit
from headrace.gateway.caller import By, may
from headrace.gateway.carried_headers import COOKIE, Headers, cookie_of, to_workspace
from headrace.gateway.carrying import Failed, Handshake, carry_http, carry_socket
from headrace.gateway.entering import recorded, wire_to, worker_of
from headrace.gateway.errors import BadRequest, GatewayError
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import JobName
from headrace.gateway.openings import OPEN_S_MAX, Opened
from headrace.gateway.projection import Job

PREFIX = "/workspaces"
TICKET = "headrace_ticket"
NOT_OPEN = "this workspace is not open in this browser, or no longer: headrace open NAME"
NOT_HERE = "a page of another place may not open a connection to a workspace"
AGAIN_S = 2  # an application that does not listen yet is asked again

_BAD_GATEWAY, _NOT_YET = 502, 503


@post(
    "/jobs/{job:str}/opening",
    summary="A browser's way into a workspace",
    status_code=200,
    opt=may("enter", "job"),
)
async def open_workspace(gateway: Gate, by: By, job: JobName) -> Opening:
    """`path` of this gateway is good once, and for a minute. `job` may be a prefix."""
    found = await by.job(job)
    visit = _visit(found)
    await recorded(by, found, visit)
    ticket = gateway.openings.ticket(found.job, by)
    return Opening(job=found.job, path=f"{PREFIX}/{found.job}/?{TICKET}={ticket}")


@asgi(PREFIX, is_mount=True, copy_scope=True)
async def workspaces(scope: Scope, receive: Receive, send: Send) -> None:
    """Everything below a workspace's address."""
    gateway: Gateway = scope["litestar_app"].state.gateway
    request = _Asked(scope)
    is_socket = "method" not in scope
    if is_socket:
        await receive()  # websocket.connect
    answer = _Answer(send, is_socket=is_socket)
    try:
        if not is_socket and request.ticket:
            await _exchange(gateway, request, answer)
            return
        opened = gateway.openings.opened(request.job, request.cookie)
        if opened is None:
            await answer.line(403, NOT_OPEN)
        elif is_socket and not request.is_from_here:
            await answer.line(403, NOT_HERE)
        else:
            await _carry(gateway, opened, request, receive, answer)
    except BadRequest as error:
        again = [(b"refresh", str(AGAIN_S).encode()), (b"retry-after", str(AGAIN_S).encode())]
        await answer.line(_NOT_YET, str(error).removeprefix("refused: "), again)
    except Failed as error:
        await answer.line(_BAD_GATEWAY, str(error))
    except GatewayError as error:
        await answer.line(error.status, str(error))


class _Asked:
    """What of a request says where it goes and who sends it."""

    def __init__(self, scope: Scope) -> None:
        raw = scope.get("raw_path") or scope["path"].encode()
        below = raw.decode("latin-1").removeprefix(f"{PREFIX}/")
        self.job, _, rest = below.partition("/")
        self.path = f"/{rest}"
        self.prefix = f"{PREFIX}/{self.job}"
        subprotocols: Any = scope.get("subprotocols", [])
        self.query = scope["query_string"].decode("latin-1")
        self.headers: Headers = list(scope["headers"])
        self.scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        self.method = str(scope.get("method", "GET"))
        self.protocols: list[str] = list(subprotocols)
        self.cookie = cookie_of(self.headers)

    @property
    def ticket(self) -> str:
        """The ticket in the address; empty when there is none."""
        return dict(parse_qsl(self.query)).get(TICKET, "") if TICKET in self.query else ""

    @property
    def target(self) -> str:
        """What the workspace is asked for."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def is_from_here(self) -> bool:
        """Whether the page that asks came from the address that it asks. Programs say nothing."""
        known = {name: value.decode("latin-1") for name, value in self.headers}
        origin = known.get(b"origin", "")
        return not origin or urlsplit(origin).netloc == known.get(b"host", "")

    def request(self) -> h11.Request:
        """As the workspace gets it."""
        headers = to_workspace(self.headers, self.prefix, self.scheme)
        if any(name == b"transfer-encoding" for name, _ in self.headers):
            headers.append((b"transfer-encoding", b"chunked"))
        headers.append((b"connection", b"close"))
        return h11.Request(method=self.method, target=self.target, headers=headers)

    def handshake(self) -> Handshake:
        """As the workspace gets it, of a WebSocket."""
        headers = to_workspace(self.headers, self.prefix, self.scheme)
        return Handshake(self.target, headers, self.protocols)


class _Answer:
    """What is sent to the browser. A line is sent only where nothing was said before."""

    def __init__(self, send: Send, *, is_socket: bool) -> None:
        self.is_socket = is_socket
        self._send, self._is_begun = send, False

    async def send(self, message: Any) -> None:
        """As ASGI has it."""
        self._is_begun = True
        await self._send(message)

    async def line(self, status: int, text: str, headers: Headers | None = None) -> None:
        """One line for people."""
        if self._is_begun:
            return
        if self.is_socket:  # refused before it opens: HTTP's 403
            await self.send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        body = f"{text}\n".encode()
        sent = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
        await self.send(
            {"type": "http.response.start", "status": status, "headers": [*sent, *(headers or [])]}
        )
        await self.send({"type": "http.response.body", "body": body, "more_body": False})


async def _exchange(gateway: Gateway, request: _Asked, answer: _Answer) -> None:
    """The ticket becomes a cookie, and leaves the address."""
    cookie = gateway.openings.cookie(request.job, request.ticket)
    if not cookie:
        await answer.line(403, NOT_OPEN)
        return
    query = urlencode([pair for pair in parse_qsl(request.query) if pair[0] != TICKET])
    place = f"{request.prefix}{request.path}{f'?{query}' if query else ''}"
    words = f"{COOKIE}={cookie}; Path={request.prefix}/; Max-Age={int(OPEN_S_MAX)}; HttpOnly"
    words += "; SameSite=Lax" + ("; Secure" if request.scheme == "https" else "")
    headers = [
        (b"location", place.encode("latin-1")),
        (b"set-cookie", words.encode()),
        (b"referrer-policy", b"no-referrer"),
    ]
    await answer.line(303, "opened", headers)


async def _carry(
    gateway: Gateway, opened: Opened, request: _Asked, receive: Receive, answer: _Answer
) -> None:
    job = await gateway.job(request.job)
    wire = await wire_to(gateway, job, _visit(job))
    try:
        if answer.is_socket:
            carried = carry_socket(wire, request.handshake(), receive, answer.send)
        else:
            carried = carry_http(wire, request.request(), receive, answer.send, request.prefix)
        await _while_allowed(opened, carried)
    finally:
        await wire.close()


async def _while_allowed(opened: Opened, carried: Coroutine[Any, Any, None]) -> None:
    """Carry until it is done, or whoever opened the workspace would not be let in any more."""
    work = asyncio.create_task(carried)
    denied = asyncio.create_task(opened.by.until_denied())
    try:
        await asyncio.wait((work, denied), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        for task in (work, denied):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await work


def _visit(job: Job) -> Visit:
    """The way to a workspace's port. Raises `BadRequest`."""
    if job.workspace is None:
        rule = "is no workspace"
        raise BadRequest("job", job.job, rule, f"headrace port-forward {job.job} PORT")
    visit = Visit(way="port-forward", key=uuid.uuid4().hex, port=job.workspace.port)
    worker = worker_of(job, visit)
    return visit if visit.port else Visit(way=visit.way, key=visit.key, port=worker.port + 1)
