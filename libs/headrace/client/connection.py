"""One HTTP connection to a gateway, and what can go wrong with it.

Rule: a request that changes something is sent again under the same key until it is answered or the
deadline has passed, so that a lost answer never makes a second job.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from headrace.client.http1 import HttpConnection, HttpError, Unsendable
from headrace.client.model import Answer
from headrace.client.protocol import AFTER_POSITION

if TYPE_CHECKING:
    import ssl

CONNECT_S_MAX = 5.0
REPLY_S_MAX = 25.0  # longer than the gateway itself waits for an answer
SILENCE_S_MAX = 30.0  # of a stream, which has a heartbeat every 10 s
DEADLINE_S = 60.0  # of a request, all tries together
RESTART_S = 5.0  # how long a gateway that nobody runs is believed to be restarting, by a change
RETRY_S = 0.3
JITTER = 0.5  # by how much a wait may be longer, so that not all come again at once
NOBODY = "nobody listens there (headrace up starts a platform)"
OK, BAD_REQUEST, NOT_FOUND = 200, 400, 404
AGAIN = (429, 502, 503, 504)  # answers that say nothing of the request: ask again

_TRACEPARENT = re.compile(r"[0-9a-f]{2}(-[0-9a-f]+)+")  # W3C Trace Context

_NEXT = re.compile(r'<(/[^>]*)>; rel="next"')  # RFC 8288, as our gateway writes it

_ANSWERS = msgspec.json.Decoder(Answer)


class ClientError(Exception):
    """The request failed, and the line says why."""


class Unreachable(ClientError):
    """Nobody answers at the gateway's address, or not in time."""


class Closed(ClientError):
    """The stream was ended on this side."""


class NotFound(ClientError):
    """There is nothing of that name."""


class Refused(ClientError):
    """The platform said no. `answer` has the refusal in its parts, and the log's position."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.message or "refused")


class Reply(NamedTuple):
    """A complete answer. `after_s` is how long to wait before asking again, `next` the path of the
    next page of a list.
    """

    status: int
    body: bytes
    after_s: float = RETRY_S
    next: str = ""


class Connection:
    """Requests to one gateway, over one connection kept open. Not for several threads at once.

    A program that is traced itself names its span in `TRACEPARENT`: what it asks for joins that.
    """

    def __init__(self, url: str, token: str, certificate: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(f"{url!r} is no address of a gateway; http://host:port is")
        self._url, self._parts, self._certificate = url, parts, certificate
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        traceparent = os.environ.get("TRACEPARENT", "")
        if _TRACEPARENT.fullmatch(traceparent):
            self._headers["traceparent"] = traceparent
        self.after_position = 0  # reads show nothing older: our own changes are seen
        self._kept: HttpConnection | None = None
        self._streams: list[HttpConnection] = []
        self._is_ended = False

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        """The body of an answer. Raises `ClientError`."""
        return _checked(self._got(path_with(path, query)))

    def pages(self, path: str) -> Iterator[bytes]:
        """The bodies of a list's pages, the first at `path`. Raises `ClientError`."""
        while path:
            reply = self._got(path)
            yield _checked(reply)
            path = reply.next

    @contextlib.contextmanager
    def body(self, path: str) -> Iterator[IO[bytes]]:
        """The body of an answer, to be read as it comes, over a connection of its own. Raises
        `ClientError`.
        """
        connection: HttpConnection | None = None
        try:
            connection = self._open(SILENCE_S_MAX)
            response = connection.ask("GET", path, None, self._headers)
            if response.status != OK:
                _checked(Reply(response.status, response.read()))
            yield response
        except (OSError, HttpError) as error:
            raise Unreachable(f"{self._url}: {_reason(error)}") from error
        finally:
            if connection is not None:
                connection.close()

    def send(self, method: str, path: str, body: bytes) -> bytes:
        """The body of an answer to what may be sent any number of times. Raises `ClientError`."""
        return _checked(self._until_answered(method, path, body, {}))

    def post(self, path: str) -> bytes:
        """The body of an answer to what may be asked any number of times. Raises `ClientError`."""
        return _checked(self._until_answered("POST", path, None, {}))

    def change(
        self, method: str, path: str, body: bytes | None, *, key: Callable[[], str]
    ) -> Answer:
        """Ask for a change, again and again until it is answered. Raises `ClientError`; `Refused`
        when the answer is no. `key` is called for every try.
        """
        reply = self._until_answered(method, path, body, {}, key)
        answer = _ANSWERS.decode(_checked(reply))
        self.after_position = max(self.after_position, answer.position)
        return answer

    def stream(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Iterator[bytes]:
        """The lines of an answer that goes on, over a connection of its own; ends when it does, or
        when the connection breaks. Raises `Unreachable`, `Closed`.
        """
        connection: HttpConnection | None = None
        try:
            connection = self._open(SILENCE_S_MAX)
            self._streams.append(connection)
            if self._is_ended:
                raise Closed
            headers = {**self._headers, **headers}
            response = connection.ask("GET", path_with(path, query), None, headers)
            if response.status != OK:
                _checked(Reply(response.status, response.read()))
            while line := response.readline():
                yield line
        except (OSError, HttpError) as error:
            if self._is_ended:
                raise Closed from error
            raise Unreachable(f"{self._url}: {_reason(error)}") from error
        finally:
            if connection is not None:
                self._streams.remove(connection)
                connection.close()
        if self._is_ended:
            raise Closed

    def end_streams(self) -> None:
        """End every stream, from another thread: who reads one gets `Closed`."""
        self._is_ended = True
        for connection in tuple(self._streams):
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _got(self, path: str) -> Reply:
        headers = {AFTER_POSITION: str(self.after_position)} if self.after_position else {}
        return self._until_answered("GET", path, None, headers)

    def _until_answered(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        key: Callable[[], str] | None = None,
    ) -> Reply:
        began_s = time.monotonic()
        deadline_s = began_s + DEADLINE_S
        while True:
            if key is not None:
                headers = {**headers, "Idempotency-Key": key()}
            wait_s = RETRY_S
            try:
                reply = self._once(method, path, body, headers)
                wait_s = reply.after_s
                if reply.status not in AGAIN or time.monotonic() + wait_s > deadline_s:
                    return reply
                failure = f"HTTP {reply.status}"
            except Unsendable as error:
                raise ClientError(str(error)) from None
            except ConnectionRefusedError:
                self.close()
                failure = NOBODY
                deadline_s = min(deadline_s, began_s + (RESTART_S if key is not None else 0.0))
            except (OSError, HttpError) as error:
                self.close()
                failure = _reason(error)
            if time.monotonic() + wait_s > deadline_s:
                raise Unreachable(f"{self._url}: {failure}")
            time.sleep(wait_s * random.uniform(1, 1 + JITTER))

    def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        if self._kept is None:
            self._kept = self._open(REPLY_S_MAX)
        response = self._kept.ask(method, path, body, {**self._headers, **headers})
        answer = response.read()
        if not response.leaves_open:
            self.close()
        after = response.header("Retry-After")
        after_s = float(after) if after.isdecimal() else RETRY_S
        after_this = _NEXT.fullmatch(response.header("Link"))
        return Reply(response.status, answer, after_s, after_this[1] if after_this else "")

    def _open(self, silence_s: float) -> HttpConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        context = tls(self._certificate) if self._parts.scheme == "https" else None
        connection = HttpConnection(host, port, CONNECT_S_MAX, context)
        connection.sock.settimeout(silence_s)
        return connection


def tls(certificate: str) -> ssl.SSLContext:
    """How to check the gateway. Raises `ClientError`."""
    from headrace import trust

    try:
        return trust.context_of(
            Path(certificate).read_text(encoding="ascii") if certificate else ""
        )
    except (OSError, ValueError) as error:
        raise ClientError(f"cannot use the certificate in {certificate}: {error}") from error


def path_with(path: str, query: Mapping[str, Any] | None) -> str:
    """The path with its query; empty values are left out."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if not (value is None or value is False or value == "")
    }
    return f"{path}?{urlencode(given)}" if given else path


def _checked(reply: Reply) -> bytes:
    """The body of a good answer. Raises what a bad one says."""
    if reply.status < BAD_REQUEST:
        return reply.body
    try:
        answer = _ANSWERS.decode(reply.body)
    except msgspec.DecodeError:
        raise ClientError(f"HTTP {reply.status}: {reply.body[:200]!r}") from None
    if reply.status == NOT_FOUND:
        raise NotFound(answer.message)
    if answer.refusal is not None:
        raise Refused(answer)
    if reply.status in AGAIN:
        raise Unreachable(answer.message)
    raise ClientError(answer.message)


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return NOBODY
    return str(error) or type(error).__name__
