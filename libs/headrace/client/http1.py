"""HTTP/1.1 as a gateway's client needs it: one request at a time, its answer whole or as it comes.

Rule: small, for the standard library's client loads a mail reader and TLS before a command line can
ask its first question. What is not HTTP raises `HttpError`; what breaks off, `ConnectionError`.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

LINE_BYTES_MAX = 65_536  # of the status, of a header, of a chunk's size
HEADERS_MAX = 100
NO_BODY = (204, 304)
UNTIL_THE_END = -1  # the length of a body that the connection ends with

_PORTS = {False: 80, True: 443}
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


class HttpError(Exception):
    """What came is not HTTP/1.1, or what should be sent is not."""


class Unsendable(HttpError):
    """What was to be asked cannot be written as a request."""


class Response(io.BufferedReader):
    """An answer: its head, and its body to be read."""

    def __init__(self, status: int, headers: Mapping[str, str], body: _Body) -> None:
        super().__init__(body)
        self.status, self._headers, self._body = status, headers, body

    def header(self, name: str) -> str:
        """A header's value; "" without."""
        return self._headers.get(name.lower(), "")

    @property
    def leaves_open(self) -> bool:
        """Whether another request may follow on this connection."""
        is_whole = self._body.has_ended and not self._body.is_until_the_end
        return is_whole and self.header("connection").lower() != "close"


class HttpConnection:
    """One connection. With `tls` it is checked so. Raises `OSError` when nobody is there."""

    def __init__(
        self, host: str, port: int | None, connect_s: float, tls: ssl.SSLContext | None
    ) -> None:
        port = port or _PORTS[tls is not None]
        self.sock = socket.create_connection((host, port), connect_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname=host)  # closes it when it fails
        self._come = self.sock.makefile("rb")
        name = f"[{host}]" if ":" in host else host
        self._host = name if port == _PORTS[tls is not None] else f"{name}:{port}"

    def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Response:
        """The answer to a request, whose body is to be read before the next one. Raises
        `HttpError`, `OSError`.
        """
        given = {"Host": self._host, "Accept-Encoding": "identity"}
        if body is not None or method not in ("GET", "HEAD"):
            given["Content-Length"] = str(len(body or b""))
        lines = [f"{name}: {value}" for name, value in {**given, **headers}.items()]
        self.sock.sendall(_head([f"{method} {path} HTTP/1.1", *lines]) + (body or b""))
        status = 100
        while 100 <= status < 200:
            status, told = self._head()
        return Response(status, told, _Body(self._come, _length(status, told)))

    def close(self) -> None:
        """Close it."""
        self._come.close()
        self.sock.close()

    def _head(self) -> tuple[int, dict[str, str]]:
        version, _, rest = _line(self._come).partition(" ")
        code = rest.partition(" ")[0]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isdecimal() and len(code) == 3):
            raise HttpError("what answers there does not speak HTTP")
        told: dict[str, str] = {"connection": "close"} if version == "HTTP/1.0" else {}
        while line := _line(self._come):
            name, _, value = line.partition(":")
            told[name.strip().lower()] = value.strip()
            if len(told) > HEADERS_MAX:
                raise HttpError(f"an answer has more than {HEADERS_MAX} headers")
        return int(code), told


class _Body(io.RawIOBase):
    """The bytes of one body. `length` is None of one in chunks."""

    def __init__(self, come: io.BufferedReader, length: int | None) -> None:
        self._come, self._left = come, length or 0
        self._is_chunked = length is None
        self.is_until_the_end = length == UNTIL_THE_END
        self.has_ended = length == 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        """Whatever has come of it, at least one byte; 0 at its end."""
        if self._is_chunked and not self._left and not self.has_ended:
            self._left = _size(_line(self._come))
            if not self._left:
                while _line(self._come):
                    """Trailers say nothing."""
                self.has_ended = True
        if self.has_ended:
            return 0
        most = len(into) if self._left < 0 else min(len(into), self._left)
        data = self._come.read1(most)
        if not data and self._left > 0:
            raise ConnectionResetError("the answer broke off")
        into[: len(data)] = data
        self._took(len(data))
        return len(data)

    def _took(self, count: int) -> None:
        if self._left < 0:
            self.has_ended = not count
            return
        self._left -= count
        if not self._left and self._is_chunked:
            _line(self._come)
        elif not self._left:
            self.has_ended = True


def _head(lines: list[str]) -> bytes:
    """These lines, of which none may be two, and the first is three words. Raises `Unsendable`."""
    try:
        head = "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")
    except UnicodeEncodeError as error:
        raise Unsendable(
            f"a request cannot have {error.object[error.start]!r} in its head"
        ) from None
    is_split = head.count(b"\n") > len(lines) + 1 or head.count(b"\r") > len(lines) + 1
    if is_split or lines[0].count(" ") != 2 or not lines[0].isprintable():
        raise Unsendable("a request cannot have blanks in its path, nor lines in its headers")
    return head


def _line(come: io.BufferedReader) -> str:
    data = come.readline(LINE_BYTES_MAX)
    if not data.endswith(b"\n"):
        raise _ended(data)
    return data.rstrip(b"\r\n").decode("latin-1")


def _ended(data: bytes) -> Exception:
    if len(data) >= LINE_BYTES_MAX:
        return HttpError(f"a line of an answer has more than {LINE_BYTES_MAX} bytes")
    return ConnectionResetError("the connection was closed before the answer")


def _length(status: int, told: Mapping[str, str]) -> int | None:
    if status in NO_BODY:
        return 0
    if told.get("transfer-encoding", "").lower() == "chunked":
        return None
    length = told.get("content-length", "")
    return int(length) if length.isdecimal() else UNTIL_THE_END


def _size(line: str) -> int:
    size = line.partition(";")[0].strip()
    if not size or not set(size) <= _HEXADECIMAL:  # `int` takes signs, too
        raise HttpError("a chunk of an answer has no size")
    return int(size, 16)
