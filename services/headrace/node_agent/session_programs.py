"""A program beside a worker, as the agent sees it: its terminal or its three pipes.

Rule: the agent has both ends before the program can write or end, so that nothing waits for the other
side and nothing is lost: it opens those of pipes itself; a terminal is the attempt's, and the shim hands
both over. How it ended is in the session's folder, where the shim writes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from headrace.bus.sessions import DATA_BYTES_MAX, Enter, Frame, size_of
from headrace.node_agent.machine import Inside
from headrace.node_agent.supervision import kernel, terminals, tree
from headrace.node_agent.supervision.beneath import remove
from headrace.node_agent.supervision.protocol import SESSIONS
from headrace.node_agent.supervision.sessions import EXIT, PID, REQUEST

LOOK_S = 0.05  # how often it is looked whether it has ended
HANDED_S_MAX = 5.0  # until the shim has opened a terminal
KINDS = {"out": "data", "err": "error"}


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What the shim wrote of its end."""

    exit_code: int
    message: str = ""


class Program:
    """One running program. Its streams belong to this process: `close` ends it."""

    def __init__(self, folder: Path, marker: str, ends: dict[str, int], keeps: list[int]) -> None:
        self._folder, self._marker = folder, marker
        self._ends = ends  # "tty", or "in", "out" and "err"
        self._keeps = keeps  # what must stay open for the other side
        self._is_all = False  # nothing more is typed

    @classmethod
    async def start(cls, inside: Inside | None, wanted: Enter) -> Program:
        """Have the attempt's shim start it. Raises `OSError`."""
        if inside is None:
            raise OSError(f"{wanted.job} does not run here now")
        folder = inside.folder / SESSIONS / wanted.session
        folder.mkdir(mode=0o700, parents=True)
        size = (wanted.rows, wanted.columns) if wanted.rows and wanted.columns else None
        env = {"TERM": "xterm-256color"} if size else {}
        request = {"command": list(wanted.command), "terminal": size, "env": env}
        program = cls(folder, inside.marker, {} if size else _pipes(folder), [])
        with contextlib.ExitStack() as closing:
            meeting = closing.enter_context(terminals.awaited(str(folder))) if size else None
            kernel.write(str(folder / REQUEST), msgspec.json.encode(request))
            signal.pidfd_send_signal(inside.pidfd, signal.SIGUSR1)
            if meeting is not None:
                await program._take_terminal(meeting)
        return program

    async def _take_terminal(self, meeting: socket.socket) -> None:
        """Wait until the shim gives it, or says why there is none. Raises `OSError`."""
        ends, has_ended = None, False
        try:
            async with asyncio.timeout(HANDED_S_MAX):
                while ends is None and not has_ended:
                    await _readable([meeting.fileno()], LOOK_S)
                    has_ended = (
                        self._ended() is not None
                    )  # before: what came may have come meanwhile
                    ends = terminals.handed(meeting)
        except TimeoutError:
            await self.close()
            raise OSError(f"no terminal was opened within {HANDED_S_MAX:g} s") from None
        if ends is not None:
            near, far = ends
            os.set_blocking(near, False)
            self._ends, self._keeps = {"tty": near}, [far]

    async def said(self) -> AsyncIterator[Frame]:
        """What it writes, then its end."""
        sources = {name: fd for name, fd in self._ends.items() if name != "in"}
        ended: Ended | None = None
        while ended is None:
            ended = self._ended()  # before the streams are emptied for the last time
            self._close_input()
            for name, end in sources.items():
                while data := _read(end):
                    yield Frame(KINDS.get(name, "data"), data)
            if ended is None:
                await _readable(list(sources.values()), LOOK_S)
        yield Frame("exit", ended.message.encode(), ended.exit_code)

    async def hear(self, frame: Frame) -> None:
        """What is typed, the terminal's size, or that nothing more comes."""
        terminal, pipe = self._ends.get("tty"), self._ends.get("in")
        if frame.kind == "size" and terminal is not None:
            with contextlib.suppress(OSError):
                terminals.resize(terminal, *size_of(frame))
        elif frame.kind == "data" and (terminal is not None or pipe is not None):
            await _write(terminal if terminal is not None else self._ends["in"], frame.data)
        elif frame.kind == "eof":
            self._is_all = True

    async def close(self) -> None:
        """Hang up, and end what does not end by that."""
        if self._ended() is None:
            await asyncio.to_thread(self._kill)
        for end in (*self._ends.values(), *self._keeps):
            os.close(end)
        self._ends, self._keeps = {}, []
        remove(self._folder)

    def _close_input(self) -> None:
        """Let the program see the end of its input, but not before it has opened that: a pipe that
        nobody has open forgets what is in it.
        """
        if self._is_all and "in" in self._ends and self._pid():
            os.close(self._ends.pop("in"))

    def _pid(self) -> int:
        """The program's process; 0 before it is known."""
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / PID).read_text())
        return 0

    def _ended(self) -> Ended | None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self._folder / EXIT).read_bytes(), type=Ended)
        return None

    def _kill(self) -> None:
        """The program's own session of processes, if that is still this attempt's."""
        with contextlib.suppress(OSError):
            pid = self._pid()
            if pid and tree.is_marked(pid, self._marker):
                os.killpg(pid, signal.SIGHUP)
                tree.send([pid, *tree.descendants(pid)], signal.SIGKILL)


def _pipes(folder: Path) -> dict[str, int]:
    """Named pipes, opened for both directions: neither side waits, and none ends by chance."""
    ends = {}
    for name in ("in", "out", "err"):
        os.mkfifo(folder / name, 0o600)
        ends[name] = os.open(folder / name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    return ends


def _read(end: int) -> bytes:
    """What there is; nothing when there is nothing now, or nobody at the other side."""
    try:
        return os.read(end, DATA_BYTES_MAX)
    except OSError:
        return b""


async def _readable(ends: list[int], timeout_s: float) -> None:
    """Wait until there is something to read, at most so long."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    for end in ends:
        loop.add_reader(end, ready.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await ready.wait()
    finally:
        for end in ends:
            loop.remove_reader(end)


async def _write(end: int, data: bytes) -> None:
    """All of it, at the pace of whoever reads."""
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(end, data) :]
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_writer(end, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_writer(end)
