"""HTTP/1.1 to a gateway, by the standard library's client; what goes wrong with it, in a line.

Rule: whoever asks catches `OSError` and `HTTPException`, and says `reason` of them.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable, Mapping
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    InvalidURL,
    UnknownProtocol,
)
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from headrace.client.errors import ClientError

if TYPE_CHECKING:
    import ssl

CONNECT_S_MAX = 5.0
SILENCE_S_SAID = 3.0  # after which a person is told that no answer has come
CERTIFICATE = "headrace login --certificate FILE, or HEADRACE_CERTIFICATE"
UNSENDABLE = "a request cannot have blanks in its path, nor lines or other alphabets in its headers"


def parts_of(url: str) -> SplitResult:
    """The parts of a gateway's address. Raises `ClientError`."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    raise ClientError(f"{url!r} is no address of a gateway; http://host:port is")


def tls(certificate: str) -> ssl.SSLContext:
    """How to check the gateway. Raises `ClientError`."""
    from headrace import trust

    try:
        return trust.context_of(
            Path(certificate).read_text(encoding="ascii") if certificate else ""
        )
    except (OSError, ValueError) as error:
        raise ClientError(f"cannot use the certificate in {certificate}: {error}") from error


def opened(url: SplitResult, context: ssl.SSLContext | None, silence_s: float) -> HTTPConnection:
    """A connection that breaks when nothing comes for `silence_s`. Raises `OSError`."""
    host = url.hostname or ""
    connection = (
        HTTPConnection(host, url.port)
        if context is None
        else HTTPSConnection(host, url.port, context=context)
    )
    # As bytes: of a name in letters Python first loads what other alphabets take, for 2 ms.
    name = host.encode("ascii") if host.isascii() else host
    address: tuple[Any, int] = name, connection.port
    plain = socket.create_connection(address, CONNECT_S_MAX)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        speaking = plain if context is None else context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
    speaking.settimeout(silence_s)
    connection.sock = speaking
    return connection


def ask(
    connection: HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    on_silence: Callable[[], None] = lambda: None,
) -> HTTPResponse:
    """The answer to a request, whose body is to be read before the next one; `on_silence` is called once
    when none has begun after `SILENCE_S_SAID`. Raises `ClientError` for what cannot be written as a
    request, and `OSError`, `HTTPException`.
    """
    try:
        connection.request(method, path, body, headers)
    except (InvalidURL, ValueError):  # whose text may have a token in it
        connection.close()
        raise ClientError(UNSENDABLE) from None
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        if not selector.select(SILENCE_S_SAID):
            on_silence()
    return connection.getresponse()


def reason(error: Exception) -> str:
    """What went wrong."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there (headrace up starts a platform)"
    if isinstance(error, SSLCertVerificationError):
        return f"its certificate is not trusted here: {error.verify_message} ({CERTIFICATE})"
    if isinstance(error, IncompleteRead):
        return "the answer broke off"
    if isinstance(error, BadStatusLine | UnknownProtocol) and not isinstance(error, OSError):
        return "what answers there does not speak HTTP/1.1"
    if getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":  # of TLS
        return "what answers there does not speak TLS; http:// may be meant"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
