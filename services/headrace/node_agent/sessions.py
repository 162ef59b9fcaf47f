"""Lets people into running workers: answers `session` requests and carries what is said.

Rule: nobody gets in but through the gateway, which asks after it knows who it is; a session reaches
one attempt's own processes, output and ports, and nothing else of the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import LogsWanted
from headrace.bus.interface import Bus, BusError, Message
from headrace.bus.sessions import DATA_BYTES_MAX, Broken, Enter, Entered, Frame, Wire
from headrace.node_agent.machine import AttemptKey, Machine, Way
from headrace.node_agent.session_ports import connect
from headrace.node_agent.tasks import end_tasks

SESSIONS_MAX = 64  # on this node
LOOK_S = 0.05  # how often a followed output is looked at
ATTACH_BYTES = 4_096  # of what was written before, to begin with

_LOG = logging.getLogger("headrace.node_agent")
_ENTER = msgspec.json.Decoder(Enter)


class NoWay(Exception):
    """There is no way in; the message says why."""


class Sessions:
    """The sessions of one node."""

    def __init__(self, bus: Bus, machine: Machine, node: str) -> None:
        self._bus, self._machine, self._node = bus, machine, node
        self._running: set[asyncio.Task[None]] = set()

    async def asked(self, message: Message) -> None:
        """Somebody wants in."""
        if not message.reply:
            return
        answer = Entered()
        try:
            wanted = _ENTER.decode(message.data)
            subjects.token(wanted.session)
            await self._open(wanted, await self._way(wanted))
        except (NoWay, ValueError, OSError, msgspec.MsgspecError) as error:
            answer = Entered(refused=str(error))
        with contextlib.suppress(BusError):
            await self._bus.publish(message.reply, msgspec.json.encode(answer))

    async def stop(self) -> None:
        """End every session."""
        await end_tasks(list(self._running))

    async def _way(self, wanted: Enter) -> Way:
        if len(self._running) >= SESSIONS_MAX:
            raise NoWay(f"{SESSIONS_MAX} sessions are open on node {self._node} already")
        key = AttemptKey(wanted.job, wanted.attempt, wanted.rank)
        inside = self._machine.inside(key)
        if inside is None:
            raise NoWay(f"{wanted.job} does not run on node {self._node} now")
        match wanted.way:
            case "exec" if wanted.command:
                return await self._machine.program(key, wanted)
            case "attach":
                return Output(self._machine, key, wanted.process)
            case "port-forward":
                return await connect(inside, wanted.port)
        raise NoWay(f"there is no way in by {wanted.way!r}")

    async def _open(self, wanted: Enter, way: Way) -> None:
        wire = Wire(
            self._bus,
            send_to=subjects.session_up(self._node, wanted.session),
            hear_from=subjects.session_down(self._node, wanted.session),
        )
        await wire.open()
        task = asyncio.create_task(carry(wire, way))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        _LOG.info("session way=%s job=%s rank=%d", wanted.way, wanted.job, wanted.rank)


class Output:
    """A worker's output from now on (and a little of what came before), to its end."""

    def __init__(self, machine: Machine, key: AttemptKey, process: int) -> None:
        self._machine, self._key, self._process = machine, key, process

    async def said(self) -> AsyncIterator[Frame]:
        """What is written, then how the worker ended."""
        offset = -ATTACH_BYTES
        while True:
            job, attempt, rank = self._key
            chunk = self._machine.read_logs(
                LogsWanted(
                    job=job, attempt=attempt, rank=rank, process=self._process, offset=offset,
                    bytes_max=DATA_BYTES_MAX,
                )
            )  # fmt: skip
            if chunk.data:
                yield Frame("data", chunk.data)
            elif chunk.ended:
                break
            else:
                await asyncio.sleep(LOOK_S)
            offset = chunk.offset + len(chunk.data)
        seen = self._machine.look(self._key)
        end = seen.end if seen is not None else None
        yield Frame("exit", end.message.encode() if end else b"", end.exit_code if end else 0)

    async def hear(self, frame: Frame) -> None:
        """A worker reads nothing: its standard input is empty."""

    async def close(self) -> None:
        """It runs on."""


async def carry(wire: Wire, way: Way) -> None:
    """Carry what is said both ways until one of them ends."""
    works = [asyncio.create_task(_out(wire, way)), asyncio.create_task(_in(wire, way))]
    try:
        done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            if error := work.exception():
                _LOG.warning("session ends error=%s: %s", type(error).__name__, error)
    finally:
        await end_tasks(works)
        await way.close()
        await wire.close()


async def _out(wire: Wire, way: Way) -> None:
    with contextlib.suppress(Broken):
        async for frame in way.said():
            await wire.send(frame)


async def _in(wire: Wire, way: Way) -> None:
    with contextlib.suppress(Broken):
        while True:
            await way.hear(await wire.receive())
