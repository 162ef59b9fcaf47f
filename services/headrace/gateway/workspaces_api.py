"""`/v1/jobs/{job}/opening`, and the hosts of workspaces: a browser's way into one.

Rule: the token stays with who asks for the opening; the address that is opened has a ticket that is
good once, and is exchanged for a cookie that scripts cannot read. The gateway itself is not found at
a workspace's host, nor a workspace at the gateway's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from litestar import Request, post
from litestar.types import ASGIApp, Receive, Scope, Send

from headrace.client.session_model import Opening, Visit
from headrace.documents.apps import chatter_of
from headrace.gateway.caller import By, may
from headrace.gateway.carried_headers import COOKIE, SECURE_COOKIE
from headrace.gateway.carrying import Failed, carry_http, carry_socket
from headrace.gateway.entering import recorded, wire_to, worker_of
from headrace.gateway.errors import BadRequest, GatewayError
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import JobName
from headrace.gateway.openings import OPEN_S_MAX, Opened
from headrace.gateway.projection import Job
from headrace.gateway.workspace_request import TICKET, WorkspaceAnswer, WorkspaceRequest

NOT_OPEN = "this workspace is not open in this browser, or no longer: headrace open NAME"
NOT_HERE = "a page of another place may link to a workspace, and ask it for nothing else"
NO_HOST = "has no host name of its own, and shares none: its pages could act for whoever opens them"
AGAIN_S = 2  # an application that does not listen yet is asked again

_BAD_GATEWAY, _NOT_YET = 502, 503


@post(
    "/jobs/{job:str}/opening",
    summary="A browser's way into a workspace",
    status_code=200,
    opt=may("enter", "job"),
)
async def open_workspace(
    request: Request[Any, Any, Any], gateway: Gate, by: By, job: JobName
) -> Opening:
    """`path` of `host` is good once, and for a minute. `job` may be a prefix."""
    found = await by.job(job)
    visit = _visit(found)
    host = gateway.places.host_of(found.job, request.headers.get("host", ""))
    if not host:
        instead = (
            f"headrace up --workspace-domain DOMAIN gives it one; "
            f"headrace port-forward {found.job} {visit.port} needs none"
        )
        raise BadRequest("job", found.job, NO_HOST, instead)
    await recorded(by, found, visit)
    ticket = gateway.openings.ticket(found.job, by)
    return Opening(job=found.job, host=host, path=f"/?{TICKET}={ticket}")


def with_workspaces(gateway: Gateway, api: ASGIApp) -> ASGIApp:
    """The application that answers at the gateway's host and at those of workspaces."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        hosts = [value for name, value in scope.get("headers", ()) if name == b"host"]
        job = gateway.places.job_at(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        if job is None:
            await api(scope, receive, send)
        else:
            await _answer(gateway, WorkspaceRequest(scope, job), receive, send)

    return answer


async def _answer(
    gateway: Gateway, request: WorkspaceRequest, receive: Receive, send: Send
) -> None:
    if request.is_socket:
        await receive()  # websocket.connect
    answer = WorkspaceAnswer(send, is_socket=request.is_socket)
    try:
        if not request.is_of_its_pages:
            await answer.line(403, NOT_HERE)
        elif request.ticket:
            await _exchange(gateway, request, answer)
        elif (opened := gateway.openings.opened(request.job, request.cookies)) is None:
            await answer.line(403, NOT_OPEN)
        else:
            await _carry(gateway, opened, request, receive, answer)
    except BadRequest as error:
        again = [(b"refresh", str(AGAIN_S).encode()), (b"retry-after", str(AGAIN_S).encode())]
        await answer.line(_NOT_YET, str(error).removeprefix("refused: "), again)
    except Failed as error:
        await answer.line(_BAD_GATEWAY, str(error))
    except GatewayError as error:
        await answer.line(error.status, str(error))


async def _exchange(gateway: Gateway, request: WorkspaceRequest, answer: WorkspaceAnswer) -> None:
    """The ticket becomes a cookie, and leaves the address."""
    cookie = gateway.openings.cookie(request.job, request.ticket)
    if not cookie:
        await answer.line(403, NOT_OPEN)
        return
    name, secure = (SECURE_COOKIE, "; Secure") if request.scheme == "https" else (COOKIE, "")
    words = f"{name}={cookie}; Path=/; Max-Age={int(OPEN_S_MAX)}; HttpOnly; SameSite=Lax{secure}"
    headers = [
        (b"location", request.without_ticket.encode("latin-1")),
        (b"set-cookie", words.encode()),
        (b"referrer-policy", b"no-referrer"),
    ]
    await answer.line(303, "opened", headers)


async def _carry(
    gateway: Gateway,
    opened: Opened,
    request: WorkspaceRequest,
    receive: Receive,
    answer: WorkspaceAnswer,
) -> None:
    job = await gateway.job(request.job)
    wire = await wire_to(gateway, job, _visit(job))
    used = _use(gateway, job, request)
    if request.is_use:
        used()
    try:
        if request.is_socket:
            carried = carry_socket(wire, request.handshake(), receive, answer.send, used)
        else:
            carried = carry_http(wire, request.http(), receive, answer.send)
        await _while_allowed(opened, carried)
    finally:
        await wire.close()


def _use(gateway: Gateway, job: Job, request: WorkspaceRequest) -> Callable[[], None]:
    """What to call when somebody uses the workspace by this request."""
    chatter = chatter_of(job.workspace.app if job.workspace is not None else "")
    if request.is_chatter(chatter):
        return lambda: None
    return partial(gateway.uses.use, job.job)


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
    visit = Visit(way="port-forward", port=job.workspace.port)
    worker = worker_of(job, visit)
    return visit if visit.port else Visit(way=visit.way, port=worker.port + 1)
