"""A way to a TCP port that one of a worker's processes listens at.

Rule: only ports of the attempt's own processes: what else listens on the node is nobody's business
here. Source: proc(5), `/proc/PID/net/tcp` and `/proc/PID/fd`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from headrace.bus.sessions import DATA_BYTES_MAX, Frame
from headrace.node_agent.machine import Inside
from headrace.node_agent.supervision import tree

CONNECT_S_MAX = 5.0
_LISTENS = "0A"  # TCP_LISTEN
_TABLES = {"tcp": "127.0.0.1", "tcp6": "::1"}


class Connection:
    """A connection to a worker's port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def said(self) -> AsyncIterator[Frame]:
        """What the worker sends, until it closes."""
        with contextlib.suppress(OSError):
            while data := await self._reader.read(DATA_BYTES_MAX):
                yield Frame("data", data)
        yield Frame("exit")

    async def hear(self, frame: Frame) -> None:
        """What is sent to it, or that nothing more comes."""
        with contextlib.suppress(OSError):
            if frame.kind == "data":
                self._writer.write(frame.data)
                await self._writer.drain()
            elif frame.kind == "eof" and self._writer.can_write_eof():
                self._writer.write_eof()

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def connect(inside: Inside, port: int) -> Connection:
    """Connect to the worker's port. Raises `OSError` with one line for people."""
    table = await asyncio.to_thread(listens, inside, port)
    if not table:
        raise OSError(f"no process of the job listens at port {port}")
    async with asyncio.timeout(CONNECT_S_MAX):
        reader, writer = await asyncio.open_connection(_TABLES[table], port)
    return Connection(reader, writer)


def listens(inside: Inside, port: int) -> str:
    """The table in which one of the worker's processes listens at this port; "" if none does."""
    pids = tree.of_attempt(inside.marker, inside.pids, inside.groups)
    for table in _TABLES if pids else ():
        sockets = _listening(pids[0], table, port)
        if sockets and any(not sockets.isdisjoint(_sockets_of(pid)) for pid in pids):
            return table
    return ""


def _listening(pid: int, table: str, port: int) -> set[str]:
    """The inodes of the sockets that listen at this port, as the process's network has them."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
        rows = (line.split() for line in list(file)[1:])
        return {row[9] for row in rows if row[3] == _LISTENS and row[1].endswith(f":{port:04X}")}
    return set()


def _sockets_of(pid: int) -> set[str]:
    """The inodes of the sockets that a process holds."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found
