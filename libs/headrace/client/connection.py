"""One HTTP connection to a gateway, and what can go wrong with it.

Rule: a request that changes something is sent again under the same key until it is answered or the
deadline has passed, so that a lost answer never makes a second job.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from headrace.client.errors import ClientError, Closed, NotFound, Refused, Unreachable
from headrace.client.model import Answer
from headrace.client.protocol import AFTER_POSITION
from headrace.client.transport import SILENCE_S_SAID, ask, opened, parts_of, reason, tls

REPLY_S_MAX = 25.0  # longer than the gateway itself waits for an answer
SILENCE_S_MAX = 30.0  # of a stream, which has a heartbeat every 10 s
DEADLINE_S = 60.0  # of a request, all tries together
SILENT_S_MAX = 1.0  # after which it is said why a request is tried again
RESTART_S = 5.0  # how long a gateway that none connects to is believed to restart, by a change
RETRY_S = 0.3
JITTER = 0.5  # by how much a wait may be longer, so that not all come again at once
OK, BAD_REQUEST, NOT_FOUND = 200, 400, 404
AGAIN = (429, 502, 503, 504)  # answers that say nothing of the request: ask again

_TRACEPARENT = re.compile(r"[0-9a-f]{2}(-[0-9a-f]+)+")  # W3C Trace Context

_NEXT = re.compile(r'<(/[^>]*)>; rel="next"')  # RFC 8288, as our gateway writes it

_ANSWERS = msgspec.json.Decoder(Answer)


class _Unconnected(Exception):
    """No connection came about: nothing was sent, and asking again is of little use."""


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

    def __init__(self, url: str, token: str, certificate: str = "", person: str = "") -> None:
        self._url, self._parts, self._certificate = url, parts_of(url), certificate
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if person:
            self._headers["Headrace-On-Behalf-Of"] = person
        traceparent = os.environ.get("TRACEPARENT", "")
        if _TRACEPARENT.fullmatch(traceparent):
            self._headers["traceparent"] = traceparent
        self.after_position = 0  # reads show nothing older: our own changes are seen
        self._kept: HTTPConnection | None = None
        self._streams: list[socket.socket] = []
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
    def body(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[HTTPResponse]:
        """The body of an answer, to be read as it comes, over a connection of its own. Raises
        `ClientError`: `Unreachable` when it breaks off, `Closed`.
        """
        try:
            with (
                contextlib.closing(self._open(SILENCE_S_MAX)) as connection,
                self._endable(connection.sock),
                ask(connection, "GET", path, None, {**self._headers, **(headers or {})}) as answer,
            ):
                if answer.status != OK:
                    _checked(Reply(answer.status, answer.read()))
                yield answer
        except (OSError, HTTPException) as error:
            if self._is_ended:
                raise Closed from error
            raise Unreachable(f"{self._url}: {reason(error)}") from error

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
        with self.body(path_with(path, query), headers) as response:
            yield from response
        if self._is_ended:
            raise Closed

    def end_streams(self) -> None:
        """End every stream, from another thread: who reads one gets `Closed`."""
        self._is_ended = True
        for stream in tuple(self._streams):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

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
        is_told = False
        while True:
            if key is not None:
                headers = {**headers, "Idempotency-Key": key()}
            wait_s = RETRY_S
            try:
                reply = self._once(method, path, body, headers)
                wait_s = reply.after_s
                if reply.status not in AGAIN or time.monotonic() + wait_s > deadline_s:
                    return reply
                failure = _message_of(reply)
            except _Unconnected as error:
                failure = str(error)
                deadline_s = min(deadline_s, began_s + (RESTART_S if key is not None else 0.0))
            except (OSError, HTTPException) as error:
                self.close()
                failure = reason(error)
            if time.monotonic() + wait_s > deadline_s:
                raise Unreachable(f"{self._url}: {failure}")
            if not is_told and time.monotonic() - began_s > SILENT_S_MAX:
                is_told = True
                left_s = deadline_s - time.monotonic()
                self._say(f"{failure}; trying again for {left_s:.0f} s")
            import random  # seldom needed

            time.sleep(wait_s * random.uniform(1, 1 + JITTER))

    def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        if self._kept is None or self._kept.sock is None:  # which it closes after a last answer
            self._kept = self._connected()
        headers = {**self._headers, **headers}
        response = ask(self._kept, method, path, body, headers, on_silence=self._say_silence)
        answer = response.read()
        after = response.getheader("Retry-After", "")
        after_s = float(after) if after.isdecimal() else RETRY_S
        after_this = _NEXT.fullmatch(response.getheader("Link", ""))
        return Reply(response.status, answer, after_s, after_this[1] if after_this else "")

    def _say_silence(self) -> None:
        left_s = REPLY_S_MAX - SILENCE_S_SAID
        self._say(f"no answer for {SILENCE_S_SAID:.0f} s; waiting for {left_s:.0f} s more")

    def _say(self, what: str) -> None:
        import logging  # seldom needed

        logging.getLogger("headrace.client").warning("%s: %s", self._url, what)

    def _connected(self) -> HTTPConnection:
        try:
            return self._open(REPLY_S_MAX)
        except OSError as error:
            raise _Unconnected(reason(error)) from error

    def _open(self, silence_s: float) -> HTTPConnection:
        context = tls(self._certificate) if self._parts.scheme == "https" else None
        return opened(self._parts, context, silence_s)

    @contextlib.contextmanager
    def _endable(self, stream: socket.socket) -> Iterator[None]:
        """Let `end_streams` end it. Raises `Closed` when that was called already."""
        self._streams.append(stream)
        try:
            if self._is_ended:
                raise Closed
            yield
        finally:
            self._streams.remove(stream)


def path_with(path: str, query: Mapping[str, Any] | None) -> str:
    """The path with its query; empty values are left out."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if not (value is None or value is False or value == "")
    }
    return f"{path}?{urlencode(given)}" if given else path


def _message_of(reply: Reply) -> str:
    """What an answer says that is none."""
    with contextlib.suppress(msgspec.DecodeError):
        if said := _ANSWERS.decode(reply.body).message:
            return said
    return f"HTTP {reply.status}"


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
