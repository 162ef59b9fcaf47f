"""`/livez`, `/readyz` and `/metrics` of a service, for supervisors and Prometheus.

Rule: it answers from what is in memory and never blocks a turn. Anybody on the machine may ask
whether a service lives and is ready; the numbers, which name projects, are for who shows the token of
the metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

REQUEST_S = 5.0
REQUEST_BYTES_MAX = 8_192
METRICS = "/metrics"
TOKEN_FILE = "metrics.token"  # noqa: S105 -- among the keys; Prometheus has it as `credentials_file`

Answer = tuple[int, str, bytes]  # status, content type, body

NEEDS_TOKEN: Answer = (401, "text/plain", f"needs the token in {TOKEN_FILE}\n".encode())


class MetricsToken:
    """The token of the metrics, of which only the digest is kept. Without a token nobody has it."""

    def __init__(self, token: bytes = b"") -> None:
        self._digest = _digest(token.strip()) if token.strip() else b""

    def is_shown(self, authorization: str) -> bool:
        """Whether this header (`Bearer …`) shows it."""
        scheme, _, shown = authorization.partition(" ")
        digest = _digest(shown.strip().encode("utf-8", "surrogatepass"))
        return scheme.lower() == "bearer" and hmac.compare_digest(digest, self._digest)


class Health:
    """A few fixed pages over HTTP/1.0. `pages` maps a path to what answers it; that of the metrics
    is shown to who has their `token`.
    """

    def __init__(
        self, pages: Mapping[str, Callable[[], Answer]], token: MetricsToken | None = None
    ) -> None:
        self._pages, self._token = pages, token or MetricsToken()
        self._server: asyncio.Server | None = None

    async def start(self, listen: str, port_file: Path) -> None:
        """Listen on `host:port`; the port that was bound is written to `port_file`."""
        host, _, port = listen.rpartition(":")
        self._server = await asyncio.start_server(
            self._serve, host, int(port), limit=REQUEST_BYTES_MAX
        )
        bound = self._server.sockets[0].getsockname()[1]
        written = port_file.with_suffix(".new")
        written.write_text(f"{bound}\n")
        written.replace(port_file)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.LimitOverrunError, ValueError):
            line = await asyncio.wait_for(reader.readline(), REQUEST_S)
            authorization = ""
            while header := (await asyncio.wait_for(reader.readline(), REQUEST_S)).strip():
                name, _, value = header.decode("latin-1").partition(":")
                if name.lower() == "authorization":
                    authorization = value.strip()
            words = line.decode("latin-1").split(" ")
            status, kind, body = self._answer(words[1] if len(words) > 1 else "", authorization)
            head = (
                f"HTTP/1.0 {status} \r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    def _answer(self, path: str, authorization: str) -> Answer:
        page = self._pages.get(path)
        if page is None:
            return 404, "text/plain", b"no such page\n"
        if path == METRICS and not self._token.is_shown(authorization):
            return NEEDS_TOKEN
        return page()


def json_answer(status: int, body: Mapping[str, object]) -> Answer:
    """A JSON page."""
    return status, "application/json", msgspec.json.encode(body)


def counters_text(service: str, counters: Mapping[str, int], position: int) -> str:
    """The runtime's own counters in Prometheus's text format."""
    lines = [
        "# TYPE headrace_log_position gauge",
        f'headrace_log_position{{service="{service}"}} {position}',
    ]
    for name in sorted(counters):
        lines.append(f"# TYPE headrace_{name}_total counter")
        lines.append(f'headrace_{name}_total{{service="{service}"}} {counters[name]}')
    return "\n".join(lines) + "\n"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
