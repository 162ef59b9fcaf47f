"""Measures how fast one other node sends."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable

import msgspec

from headrace.bus.agents import ProbePeer
from headrace.node_agent.probing import CHUNK_BYTES, PROBE_S_MAX, context_of
from headrace.vault import VaultError

Open = Callable[[bytes, bytes], bytes]  # what is sealed to this node, and what for


async def bytes_per_s(node: str, peer: ProbePeer, opened: Open) -> int:
    """How many bytes a second `peer` sends to `node` over one connection; 0: it does not. Never takes
    longer than `PROBE_S_MAX`.
    """
    received, writer = _Received(), None
    try:
        async with asyncio.timeout(PROBE_S_MAX):
            where = peer.address, peer.port
            reader, writer = await asyncio.open_connection(*where, limit=CHUNK_BYTES)
            writer.write(msgspec.json.encode(peer.signed) + b"\n")
            challenge = base64.b64decode(await reader.readline(), validate=False)
            nonce = opened(challenge, context_of(node, peer.node))
            writer.write(base64.b64encode(nonce) + b"\n")
            await received.take(reader)
    except TimeoutError:
        pass  # what has come in so far counts
    except (OSError, ValueError, binascii.Error, VaultError):
        return 0
    finally:
        if writer is not None:
            writer.close()
    return received.bytes_per_s


class _Received:
    """What came in, from the end of the first piece on: before that the connection warms up."""

    def __init__(self) -> None:
        self._bytes = 0
        self._begun_s = self._last_s = 0.0

    @property
    def bytes_per_s(self) -> int:
        took_s = self._last_s - self._begun_s
        return int(self._bytes / took_s) if took_s > 0 else 0

    async def take(self, reader: asyncio.StreamReader) -> None:
        """Until the other has sent all."""
        loop = asyncio.get_running_loop()
        if not await reader.read(CHUNK_BYTES):
            return
        self._begun_s = self._last_s = loop.time()
        while piece := await reader.read(CHUNK_BYTES):
            self._bytes += len(piece)
            self._last_s = loop.time()
