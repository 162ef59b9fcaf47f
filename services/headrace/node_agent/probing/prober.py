"""Knows how fast the network is to other nodes, and finds out anew once a week."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import ProbePeers, Signed
from headrace.bus.interface import Bus, BusError
from headrace.node_agent.probing.measuring import Open, bytes_per_s
from headrace.node_agent.probing.serving import ProbeServer

EVERY_US = 7 * 86_400 * 1_000_000
FIRST_S = 3.0  # after the start, so that placement knows the node
AGAIN_S = 600.0  # before whom nobody answered, or who knows nobody, asks again
ANSWER_S = 5.0
PEERS_MAX = 8  # asked, whatever placement says

_LOG = logging.getLogger("headrace.node_agent")
_PEERS = msgspec.json.Decoder(ProbePeers)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, and when by the node's clock."""

    at_us: int = 0
    bandwidth: dict[str, int] = {}


class Prober:
    """One node's, serving others at `address`. `path` keeps what was measured; `opened` opens what
    is sealed to this node.
    """

    def __init__(
        self,
        node: str,
        address: str,
        path: Path,
        *,
        is_granted: Callable[[Signed], bool],
        opened: Open,
        now_us: Callable[[], int],
    ) -> None:
        self._node, self._address, self._path = node, address, path
        self._opened, self._now_us = opened, now_us
        self._server = ProbeServer(node, is_granted)
        self._measured = _read(path)
        self.port = 0

    @property
    def bandwidth(self) -> dict[str, int]:
        """Bytes a second by level; see `events.nodes.NodeJoined`."""
        return self._measured.bandwidth

    async def run(self, bus: Bus) -> None:
        """Serve others, and measure whenever it is due, for ever."""
        try:
            await self._open()
            wait_s = FIRST_S
            while True:
                await asyncio.sleep(wait_s)
                wait_s = AGAIN_S
                if not 0 <= self._now_us() - self._measured.at_us < EVERY_US:
                    await self._measure(bus)
        finally:
            await self._server.close()

    async def _open(self) -> None:
        try:
            self.port = await self._server.open(self._address)
        except OSError as error:
            _LOG.warning("probes are not served at=%s error=%s", self._address, error.strerror)

    async def _measure(self, bus: Bus) -> None:
        """Ask each peer once, one after the other."""
        try:
            subject = subjects.agent_up(self._node, "peers")
            answer = await bus.request(subject, b"", timeout_s=ANSWER_S)
            peers = _PEERS.decode(answer.data).peers[:PEERS_MAX]
        except (BusError, msgspec.MsgspecError):
            return
        found = {p.level: await bytes_per_s(self._node, p, self._opened) for p in peers}
        found = {level: rate for level, rate in found.items() if rate}
        if found:
            self._measured = Measured(at_us=self._now_us(), bandwidth=found)
            _write(self._path, self._measured)


def _read(path: Path) -> Measured:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Measured)
    except (OSError, msgspec.MsgspecError):
        return Measured()


def _write(path: Path, measured: Measured) -> None:
    with contextlib.suppress(OSError):
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(measured))
        os.replace(new, path)
