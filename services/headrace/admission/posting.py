"""One message to one webhook, over HTTP.

Rule: what the address resolves to is looked at before anything is sent, and that very address is
connected to, so that no name leads inside. Redirects are not followed. An endpoint that answers a
byte at a time is given up as a silent one is. Signatures and headers are those of the Standard
Webhooks specification (standardwebhooks.com).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import socket
import ssl
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from headrace.documents.webhook_file import is_inside
from headrace.runtime.pipelines.outcomes import Outcome

ANSWER_S_MAX = 15.0
ANSWER_BYTES_READ = 200  # of what it says when it does not take a message
GONE = 410


class NotTaken(Exception):
    """The message was not taken, and why. `is_final`: it is of no use to try again."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Message(NamedTuple):
    """What is sent where. `secret` signs it, at `at_s` seconds since 1970."""

    url: str
    outcome: Outcome
    secret: bytes
    at_s: int
    private: bool


class Post:
    """One try to send a message. `run` blocks; `abort` may be called from another thread."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._raw: socket.socket | None = None
        self._is_aborted = False

    def run(self) -> None:
        """Send it. No single wait takes longer than `ANSWER_S_MAX`. Raises `NotTaken`."""
        message = self._message
        parts = urlsplit(message.url)
        try:
            connection = self._connected(parts)
        except (OSError, ssl.SSLError) as error:
            raise NotTaken(f"{parts.hostname}: {self._reason(error)}") from error
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, message.outcome.body, _headers(message))
            answer = connection.getresponse()
            said = answer.read(ANSWER_BYTES_READ)
        except (OSError, http.client.HTTPException) as error:
            raise NotTaken(f"{parts.hostname}: {self._reason(error)}") from error
        finally:
            connection.close()
            if self._raw is not None:
                self._raw.close()
        if (
            self._is_aborted
        ):  # the library takes an answer that breaks off in its headers for a whole one
            raise NotTaken(f"{parts.hostname}: did not answer in time")
        if not 200 <= answer.status < 300:
            text = "".join(c if c.isprintable() else " " for c in said.decode(errors="replace"))
            reason = f"HTTP {answer.status} {text.strip()}".strip()
            raise NotTaken(reason, is_final=answer.status == GONE)

    def abort(self) -> None:
        """It takes too long in all: whatever it waits for on its connection ends at once."""
        self._is_aborted = True
        if self._raw is not None:
            with contextlib.suppress(OSError):  # it has ended
                self._raw.shutdown(socket.SHUT_RDWR)

    def _connected(self, parts: SplitResult) -> http.client.HTTPConnection:
        host = parts.hostname or ""
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(each[4][0]) for each in found]
        inside = [address for address in addresses if is_inside(address.partition("%")[0])]
        if inside and not self._message.private:
            raise NotTaken(f"{host} is {inside[0]}, which is not on the public internet")
        raw = socket.create_connection((addresses[0], port), timeout=ANSWER_S_MAX)
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S_MAX)
        try:
            self._raw = raw.dup()  # TLS takes the other one over
            tls = ssl.create_default_context()
            connection.sock = tls.wrap_socket(raw, server_hostname=host) if is_tls else raw
        except BaseException:
            raw.close()
            raise
        return connection

    def _reason(self, error: Exception) -> str:
        if self._is_aborted:
            return "did not answer in time"
        return str(error) or type(error).__name__


def signature(secret: bytes, message_id: str, at_s: int, body: bytes) -> str:
    """`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`."""
    signed = b".".join((message_id.encode(), str(at_s).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def _headers(message: Message) -> dict[str, str]:
    outcome = message.outcome
    message_id = f"headrace-{outcome.headers['ce-id']}"
    return {
        **outcome.headers,
        "Content-Type": "application/json",
        "User-Agent": "headrace",
        "webhook-id": message_id,
        "webhook-timestamp": str(message.at_s),
        "webhook-signature": signature(message.secret, message_id, message.at_s, outcome.body),
    }
