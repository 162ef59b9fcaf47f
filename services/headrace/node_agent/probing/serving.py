"""Serves other nodes' probes: checks the pass, challenges its bearer, then sends for half a second.

Rule: a stranger costs one line and one answer. Nothing that arrives is kept but when a node was
served last.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import logging
import secrets
from collections.abc import Callable

import msgspec

from headrace.bus.agents import ProbePass, Signed
from headrace.node_agent.probing import (
    CHUNK_BYTES,
    LINE_BYTES_MAX,
    PROBE_S_MAX,
    STREAM_S,
    context_of,
)
from headrace.node_agent.tasks import end_tasks
from headrace.vault import VaultError, seal_to

PAUSE_S = 60.0  # before the same node is served again
SERVED_MAX = 10_000  # nodes remembered; beyond it the oldest is forgotten
OPEN_MAX = 16  # connections at once; more are closed

_LOG = logging.getLogger("headrace.node_agent")
_SIGNED = msgspec.json.Decoder(Signed)
_PASS = msgspec.json.Decoder(ProbePass)


class ProbeServer:
    """`node` is who is asked; `is_granted` tells whether placement signed a document."""

    def __init__(self, node: str, is_granted: Callable[[Signed], bool]) -> None:
        self._node, self._is_granted = node, is_granted
        self._server: asyncio.Server | None = None
        self._served_s: dict[str, float] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._one = asyncio.Lock()

    async def open(self, address: str) -> int:
        """Listen there; the port. Raises `OSError`."""
        self._server = await asyncio.start_server(self._accept, address, 0, limit=LINE_BYTES_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Listen no more, and let go whoever is served."""
        if self._server is not None:
            self._server.close()
        await end_tasks(self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= OPEN_MAX:
            writer.close()
            return
        task = asyncio.create_task(self._connected(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PROBE_S_MAX):
                if await self._is_let_in(reader, writer):
                    await self._stream(writer)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            pass  # whoever it was has gone, was too slow, or says nothing that is understood
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _is_let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether it has a pass, and is whom the pass names."""
        bearer = self._bearer(await reader.readline())
        now_s = asyncio.get_running_loop().time()
        if bearer is None or now_s - self._served_s.get(bearer.node, -PAUSE_S) < PAUSE_S:
            return False
        nonce = secrets.token_bytes(32)
        try:
            key = base64.b64decode(bearer.public_key, validate=True)
            challenge = seal_to(key, nonce, context_of(bearer.node, self._node))
        except (VaultError, binascii.Error):
            return False
        writer.write(base64.b64encode(challenge) + b"\n")
        answer = base64.b64decode(await reader.readline(), validate=False)
        if not hmac.compare_digest(answer, nonce):
            _LOG.warning("a probe was refused node=%s", bearer.node)
            return False
        self._served_s.pop(bearer.node, None)
        self._served_s[bearer.node] = now_s
        if len(self._served_s) > SERVED_MAX:
            del self._served_s[next(iter(self._served_s))]
        return True

    def _bearer(self, line: bytes) -> ProbePass | None:
        """Who may ask this node, by the pass in this line."""
        try:
            signed = _SIGNED.decode(line)
            found = _PASS.decode(signed.document)
        except msgspec.MsgspecError:
            return None
        return found if found.peer == self._node and self._is_granted(signed) else None

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        """Send, to one at a time, as much as it takes in that time."""
        async with self._one:
            loop = asyncio.get_running_loop()
            end_s, chunk = loop.time() + STREAM_S, bytes(CHUNK_BYTES)
            while loop.time() < end_s:
                writer.write(chunk)
                await writer.drain()
