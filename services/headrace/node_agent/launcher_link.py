"""The agent's link to the node's launcher: starts it where it is missing, and speaks its lines.

Rule: the launcher may die at any moment and is then started anew; nothing that runs depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headrace.node_agent import supervision
from headrace.node_agent.supervision.protocol import (
    LAUNCHER_LOG,
    LINE_BYTES_MAX,
    QUIT,
    SOCKET,
    START,
    VERSION,
)
from headrace.node_agent.tasks import end_tasks

RETRY_S_FIRST, RETRY_S_MAX = 0.005, 1.0  # between tries to reach a launcher

_LOG = logging.getLogger("headrace.node_agent")


class LauncherLink:
    """Keeps a launcher running and connected. `said` gets each of its lines; `connected` is called
    whenever a fresh connection stands, since answers may have been lost with the one before.
    """

    def __init__(
        self,
        node_dir: Path,
        *,
        said: Callable[[dict[str, Any]], None],
        connected: Callable[[], None],
    ) -> None:
        self._node_dir = node_dir
        self._said, self._connected = said, connected
        self._writer: asyncio.StreamWriter | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether lines can be sent."""
        return self._writer is not None

    def open(self) -> None:
        """Connect, and stay connected until `close`."""
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Leave the launcher to itself; one that is just being born is not needed."""
        is_up = self._writer is not None
        if self._task is not None:
            await end_tasks([self._task])
        if self._process is None:
            return
        if is_up:
            self._process.returncode = 0  # it runs on, and is not waited for
        else:
            self._process.kill()
            self._process.wait()

    def start(self, spec: dict[str, Any]) -> bool:
        """Hand a start over; False when there is no launcher now."""
        if self._writer is None:
            return False
        self._writer.write(b"%b %b\n" % (START, msgspec.json.encode(spec)))
        return True

    async def _keep(self) -> None:
        """Whoever ends as soon as it serves is started at a pace that a node bears."""
        pause_s = RETRY_S_FIRST
        while True:
            since_s = time.monotonic()
            await self._serve()
            has_served = time.monotonic() - since_s >= RETRY_S_MAX
            await asyncio.sleep(RETRY_S_FIRST if has_served else pause_s)
            pause_s = RETRY_S_FIRST if has_served else min(pause_s * 2, RETRY_S_MAX)

    async def _serve(self) -> None:
        """Once, for as long as there is a launcher; one is started where there is none."""
        try:
            reader, writer = await self._connect()
        except OSError:
            self._launch()
            return
        try:
            pid = await self._greet(reader, writer)
            if pid:
                self._writer = writer
                self._connected()
                await self._listen(reader, pid)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            _LOG.warning("launcher link broken error=%s", type(error).__name__)
        finally:
            self._writer = None
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Through the folder's descriptor: a socket's path may have 107 bytes at most."""
        folder = os.open(self._node_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = f"/proc/self/fd/{folder}/{SOCKET}"
            return await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX)
        finally:
            os.close(folder)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """The pid of a launcher of this version, 0 for one of another: that is asked to leave."""
        greeting = msgspec.json.decode(await reader.readline(), type=dict[str, Any])
        if greeting.get("launcher") == VERSION:
            return int(greeting["pid"])
        _LOG.info("launcher replaced version=%s by=%d", greeting.get("launcher"), VERSION)
        writer.write(QUIT + b"\n")
        await writer.drain()
        await reader.read()
        return 0

    async def _listen(self, reader: asyncio.StreamReader, pid: int) -> None:
        """Until the launcher is gone: its shims may hold the connection open when it is."""
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(pid)
        loop.add_reader(pidfd, _end, loop, reader, pidfd)
        try:
            while line := await reader.readline():
                self._said(msgspec.json.decode(line, type=dict[str, Any]))
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)

    def _launch(self) -> None:
        """Start a launcher in a session of its own; one more than needed ends by itself."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            _LOG.warning("launcher is gone, starting another")
        log = os.open(self._node_dir / LAUNCHER_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            program = [sys.executable, "-I", "-S", "-X", "utf8", _folder_of(supervision.__file__)]
            self._process = subprocess.Popen(
                [*program, str(self._node_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"LD_BIND_NOW": "1", "MALLOC_ARENA_MAX": "1"},  # once, not in every shim
                start_new_session=True,
            )
        finally:
            os.close(log)


def _end(loop: asyncio.AbstractEventLoop, reader: asyncio.StreamReader, pidfd: int) -> None:
    loop.remove_reader(pidfd)
    reader.feed_eof()


def _folder_of(file: str | None) -> str:
    assert file is not None  # the package is made of files
    return os.path.dirname(os.path.abspath(file))
