"""What a browser asks a workspace for, and the lines that it is answered with by us.

Rule: only a workspace's own pages ask it for anything; pages of other places link to it and no more.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import h11
from litestar.types import Scope, Send

from headrace.gateway.carried_headers import Headers, cookies_of, to_workspace
from headrace.gateway.carrying import Handshake
from headrace.gateway.origins import is_of_own_pages

TICKET = "headrace_ticket"


class WorkspaceRequest:
    """An HTTP request or a WebSocket's opening, for the workspace of a job."""

    def __init__(self, scope: Scope, job: str) -> None:
        raw = scope.get("raw_path") or scope["path"].encode()
        subprotocols: Any = scope.get("subprotocols", [])
        self.job = job
        self.is_socket = "method" not in scope
        self.path = raw.decode("latin-1")
        self.query = scope["query_string"].decode("latin-1")
        self.headers: Headers = list(scope["headers"])
        self.scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        self.method = str(scope.get("method", "GET"))
        self.protocols: list[str] = list(subprotocols)
        self.cookies = cookies_of(self.headers)

    @property
    def ticket(self) -> str:
        """The ticket in the address; empty when there is none."""
        if self.is_socket or TICKET not in self.query:
            return ""
        return dict(parse_qsl(self.query)).get(TICKET, "")

    @property
    def without_ticket(self) -> str:
        """The same address, to be opened with a cookie."""
        query = urlencode([pair for pair in parse_qsl(self.query) if pair[0] != TICKET])
        path = f"/{self.path.lstrip('/')}"  # // would be another host
        return f"{path}?{query}" if query else path

    @property
    def is_of_its_pages(self) -> bool:
        """Whether no page of another place asks, or one that only links here. Programs say nothing."""
        return is_of_own_pages(self._header, "" if self.is_socket else self.method)

    def is_chatter(self, chatter: tuple[str, ...]) -> bool:
        """Whether the application's pages do this by themselves."""
        return self.path.startswith(chatter)

    @property
    def is_use(self) -> bool:
        """Whether somebody is there: pages that are left open go on reading, and do no more."""
        if self.is_socket:
            return False  # its messages are
        mode = self._header("sec-fetch-mode")
        return self.method not in ("GET", "HEAD", "OPTIONS") or mode in ("navigate", "")

    def http(self) -> h11.Request:
        """As the workspace gets it."""
        headers = to_workspace(self.headers, self.scheme)
        if any(name == b"transfer-encoding" for name, _ in self.headers):
            headers.append((b"transfer-encoding", b"chunked"))
        headers.append((b"connection", b"close"))
        return h11.Request(method=self.method, target=self._target, headers=headers)

    def handshake(self) -> Handshake:
        """As the workspace gets it, of a WebSocket."""
        return Handshake(self._target, to_workspace(self.headers, self.scheme), self.protocols)

    @property
    def _target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    def _header(self, wanted: str) -> str:
        found = (value for name, value in self.headers if name == wanted.encode())
        return next(found, b"").decode("latin-1")


class WorkspaceAnswer:
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
