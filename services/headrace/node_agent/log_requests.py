"""Answers requests for workers' output, holding an answer back while there is nothing new.

Rule: a request is answered once, soon when too many wait; output is never pushed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec

from headrace.bus.agents import LogsChunk, LogsWanted
from headrace.bus.interface import Bus, BusError, Message
from headrace.node_agent.machine import Machine
from headrace.node_agent.tasks import end_tasks

WAITING_MAX = 64  # requests held back at once; beyond it they are answered with what there is
WAIT_S_MAX = 30.0
LOOK_S = 0.05  # how often a file is looked at while somebody waits for it

_LOG = logging.getLogger("headrace.node_agent")
_WANTED = msgspec.json.Decoder(LogsWanted)
_ENCODER = msgspec.json.Encoder()


class LogRequests:
    """Answers `logs` requests from the machine's files."""

    def __init__(self, bus: Bus, machine: Machine) -> None:
        self._bus, self._machine = bus, machine
        self._waiting: set[asyncio.Task[None]] = set()

    async def asked(self, message: Message) -> None:
        """A request came in."""
        if not message.reply:
            return
        try:
            wanted = _WANTED.decode(message.data)
        except msgspec.MsgspecError as error:
            await self._answer(message, LogsChunk(offset=0, ended=True, missing=str(error)))
            return
        chunk = self._machine.read_logs(wanted)
        if _is_due(chunk) or wanted.wait_s <= 0 or len(self._waiting) >= WAITING_MAX:
            await self._answer(message, chunk)
            return
        task = asyncio.create_task(self._wait_for_more(message, wanted))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def stop(self) -> None:
        """Answer nobody any more."""
        await end_tasks(list(self._waiting))

    async def _wait_for_more(self, message: Message, wanted: LogsWanted) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + min(wanted.wait_s, WAIT_S_MAX)
        chunk = self._machine.read_logs(wanted)
        while not _is_due(chunk) and loop.time() < until_s:
            await asyncio.sleep(LOOK_S)
            chunk = self._machine.read_logs(wanted)
        await self._answer(message, chunk)

    async def _answer(self, message: Message, chunk: LogsChunk) -> None:
        with contextlib.suppress(BusError):
            await self._bus.publish(message.reply, _ENCODER.encode(chunk))


def _is_due(chunk: LogsChunk) -> bool:
    return bool(chunk.data or chunk.ended or chunk.missing)
