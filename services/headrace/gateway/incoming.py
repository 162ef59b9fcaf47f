"""How much, and how slowly, somebody may send before anything is known of them.

Rule: the head of a request is bounded in bytes and in time, a body in how long it may be silent and in
how slowly it may come, so that no upload is held open with a byte a minute; what is more is told so, and its connection closed. Nothing is counted of a request that comes at once.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 65_536  # that wait for their end; what comes in one piece has at most 256 KiB
HEAD_S_MAX = 30.0  # from the connection, or the first byte, to the end of the head
SILENCE_S_MAX = 60.0  # of a body that is not whole
BODY_BYTES_PER_S_MIN = 10_000  # of a body as a whole, once it has taken longer than that

_UNREADABLE = (400, "Bad Request", "is not HTTP/1.1")
_TOO_LARGE = (431, "Request Header Fields Too Large", "the head of a request is too long")
_TOO_SLOW = (408, "Request Timeout", "the request did not come in time")


class Incoming(HttpToolsProtocol):
    """uvicorn's connection, with these bounds."""

    _head_bytes = 0  # of a head that is not whole
    _is_in_head = True
    _is_in_body = False
    _body_bytes = 0
    _body_began_s = 0.0
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._wait(HEAD_S_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._wait(0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """They sent something."""
        had_begun = self._head_bytes > 0
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._wait(0)
        elif self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(*_TOO_LARGE)
            elif not had_begun:
                self._wait(HEAD_S_MAX)
        else:
            self._body_bytes += len(data)
            if self._is_in_body and self._body_is_slow():
                self._refuse(*_TOO_SLOW)
            else:
                self._wait(SILENCE_S_MAX if self._is_in_body else 0)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._is_in_head, self._is_in_body, self._head_bytes = False, True, 0
        self._body_bytes, self._body_began_s = 0, self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """It is whole."""
        self._is_in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What they sent is no request."""
        del msg  # the parser's, as text
        self._refuse(*_UNREADABLE)

    def _wait(self, most_s: float) -> None:
        """Wait for more of them so long; with 0 for ever."""
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None
        if most_s:
            self._waits = self.loop.call_later(most_s, self._too_slow)

    def _body_is_slow(self) -> bool:
        took_s = self.loop.time() - self._body_began_s
        return took_s > SILENCE_S_MAX + self._body_bytes / BODY_BYTES_PER_S_MIN

    def _too_slow(self) -> None:
        if self.flow.read_paused:  # it is we who do not read
            self._body_bytes, self._body_began_s = 0, self.loop.time()
            self._wait(SILENCE_S_MAX)
            return
        self._refuse(*_TOO_SLOW)

    def _refuse(self, status: int, phrase: str, line: str) -> None:
        """Say so, if nothing else is being said on this connection, and close it."""
        self._wait(0)
        cycle = self.cycle
        if (
            self._is_in_head
            or cycle is None
            or cycle.response_complete
            or not cycle.response_started
        ):
            body = (
                b'{"accepted":false,"message":"refused: request \xe2\x80\x94 %s"}' % line.encode()
            )
            head = (
                f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()
