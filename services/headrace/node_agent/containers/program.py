"""A program beside a worker in its container: somebody's way in, through the engine.

Rule: it has the worker's environment, account and mark; whoever leaves ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator

from aiodocker.exceptions import DockerError
from aiodocker.execs import Exec
from aiodocker.stream import Stream
from aiohttp import ClientError

from headrace.bus.sessions import DATA_BYTES_MAX, Enter, Frame, size_of
from headrace.node_agent.containers.engine import Engine, asking
from headrace.node_agent.supervision import tree

KINDS = {1: "data", 2: "error"}  # the engine's numbers of output and error
LOOK_S = 0.05
_LOST = (DockerError, ClientError, OSError, RuntimeError)


class ContainerProgram:
    """One running program."""

    def __init__(self, program: Exec, stream: Stream, marker: str) -> None:
        self._program, self._stream, self._marker = program, stream, marker

    @classmethod
    async def start(cls, engine: Engine, name: str, marker: str, wanted: Enter) -> ContainerProgram:
        """Start it in the container. Raises `Away`, `Denied`."""
        is_terminal = bool(wanted.rows and wanted.columns)
        environment = {"TERM": "xterm-256color"} if is_terminal else {}
        program = await engine.program(
            name, list(wanted.command), stdin=True, tty=is_terminal, environment=environment
        )
        stream = program.start(detach=False)
        with asking():
            await stream.__aenter__()  # before anybody reads or writes: each would start it
        me = cls(program, stream, marker)
        if is_terminal:
            await me._resize(wanted.rows, wanted.columns)
        return me

    async def said(self) -> AsyncIterator[Frame]:
        """What it writes, then its end."""
        with contextlib.suppress(*_LOST):
            while (message := await self._stream.read_out()) is not None:
                for start in range(0, len(message.data), DATA_BYTES_MAX):
                    piece = message.data[start : start + DATA_BYTES_MAX]
                    yield Frame(KINDS.get(message.stream, "data"), piece)
        yield Frame("exit", b"", await self._exit_code())

    async def hear(self, frame: Frame) -> None:
        """What is typed, the terminal's size, or that nothing more comes."""
        with contextlib.suppress(*_LOST):
            if frame.kind == "data":
                await self._stream.write_in(frame.data)
            elif frame.kind == "size":
                await self._resize(*size_of(frame))
            elif frame.kind == "eof":
                self._close_input()

    async def close(self) -> None:
        """Hang up, and end what does not end by that."""
        with contextlib.suppress(*_LOST):
            said = await self._program.inspect()
            pid = int(said.get("Pid") or 0)
            if said.get("Running") and pid and tree.is_marked(pid, self._marker):
                tree.send([pid], signal.SIGHUP)
                tree.send([pid, *tree.descendants(pid)], signal.SIGKILL)
        with contextlib.suppress(*_LOST):
            await self._stream.close()

    async def _exit_code(self) -> int:
        with contextlib.suppress(*_LOST):
            while (said := await self._program.inspect())["Running"]:  # noqa: ASYNC110  it tells nobody
                await asyncio.sleep(LOOK_S)
            return int(said["ExitCode"] or 0)
        return os.EX_UNAVAILABLE

    def _close_input(self) -> None:
        """Half of the connection: aiodocker's own `close` would drop what is still written."""
        response = self._stream._resp  # noqa: SLF001
        connection = response.connection if response is not None else None
        if connection is not None and connection.transport is not None:
            connection.transport.write_eof()

    async def _resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(*_LOST):
            await self._program.resize(h=rows, w=columns)
