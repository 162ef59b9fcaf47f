"""A way to a port that one of a worker's processes listens at: the socket in the attempt's folder that
stands for it, or the TCP port.

Rule: only where the attempt's own processes listen: what else listens on the node is nobody's business
here, also where a job has put it in the socket's place, or listens at the same port of another address.
So what is connected to is the very address at which a socket of the attempt listens, in the agent's own
network: where a job may make namespaces it can listen at any address of a network that it made, and the
agent, which no filter keeps from the machine's services, would connect to those. Source: proc(5),
`/proc/self/net/tcp` and `/proc/PID/fd`; unix(7), `SO_PEERCRED`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import AsyncIterator

from headrace.bus.sessions import DATA_BYTES_MAX, Frame
from headrace.node_agent.machine import Inside
from headrace.node_agent.supervision import tree
from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.protocol import socket_of

CONNECT_S_MAX = 5.0
_LISTENS = "0A"  # TCP_LISTEN
_PEER = struct.Struct("3i")  # the kernel's `struct ucred`: process, user, group
_TABLES = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6}
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- of who listens at all addresses


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
    own = await asyncio.to_thread(at_socket, inside, port)
    if own is not None:
        return Connection(*await asyncio.open_unix_connection(sock=own))
    address = await asyncio.to_thread(listens, inside, port)
    if not address:
        raise OSError(f"no process of the job listens at port {port}")
    async with asyncio.timeout(CONNECT_S_MAX):
        reader, writer = await asyncio.open_connection(address, port)
    return Connection(reader, writer)


def at_socket(inside: Inside, port: int) -> socket.socket | None:
    """A connection to the socket that stands for this port, if one of the worker's processes listens
    there; None if none does.
    """
    try:
        with Folder.at(inside.folder) as attempt:
            found = attempt.find(socket_of(port))
    except OSError:
        return None
    try:
        return _connected(inside, found)
    finally:
        os.close(found)


def _connected(inside: Inside, found: int) -> socket.socket | None:
    if not stat.S_ISSOCK(os.fstat(found).st_mode):
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S_MAX)
        connection.connect(f"/proc/self/fd/{found}")  # what was found, whatever is there now
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        if _PEER.unpack(peer)[0] in tree.of_attempt(inside.marker, inside.pids, inside.groups):
            connection.setblocking(False)
            return connection
    except OSError:
        pass
    connection.close()
    return None


def listens(inside: Inside, port: int) -> str:
    """An address at which one of the worker's processes, and nobody else, is reached at this port; "" if
    there is none.
    """
    pids = tree.of_attempt(inside.marker, inside.pids, inside.groups)
    own = set[str]().union(*map(_sockets_of, pids))
    found = [row for table in _TABLES for row in _listening(table, port)]
    ours = [address for address, inode in found if inode in own]
    others = {address for address, inode in found if inode not in own}
    reached = [_LOOPBACKS.get(address, address) for address in ours]
    reached.sort(key=lambda address: address not in _LOOPBACKS.values())
    return next((address for address in reached if address not in others), "")


def _listening(table: str, port: int) -> list[tuple[str, str]]:
    """Address and inode of the sockets that listen at this port in this process's network."""
    with contextlib.suppress(OSError), open(f"/proc/self/net/{table}", encoding="ascii") as file:
        rows = (line.split() for line in list(file)[1:])
        return [
            (_address(row[1].partition(":")[0], _TABLES[table]), row[9])
            for row in rows
            if row[3] == _LISTENS and row[1].endswith(f":{port:04X}")
        ]
    return []


def _address(words: str, family: int) -> str:
    """An address as the kernel writes it there: words of 32 bits, each in the machine's order."""
    each = (int(words[at : at + 8], 16) for at in range(0, len(words), 8))
    return socket.inet_ntop(family, b"".join(word.to_bytes(4, sys.byteorder) for word in each))


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
