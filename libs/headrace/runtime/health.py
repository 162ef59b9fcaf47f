"""`/livez`, `/readyz` and `/metrics` of a service, for supervisors and Prometheus.

Rule: it answers from what is in memory and never blocks a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

REQUEST_S = 5.0
REQUEST_BYTES_MAX = 8_192

Answer = tuple[int, str, bytes]  # status, content type, body


class Health:
    """A few fixed pages over HTTP/1.0. `pages` maps a path to what answers it."""

    def __init__(self, pages: Mapping[str, Callable[[], Answer]]) -> None:
        self._pages = pages
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
            while (await asyncio.wait_for(reader.readline(), REQUEST_S)).strip():
                pass
            words = line.decode("latin-1").split(" ")
            page = self._pages.get(words[1] if len(words) > 1 else "")
            status, kind, body = page() if page else (404, "text/plain", b"no such page\n")
            head = (
                f"HTTP/1.0 {status} \r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()


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
