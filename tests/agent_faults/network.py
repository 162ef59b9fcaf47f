"""Network namespaces: machines of their own as far as the network goes, that can be cut off.

Rule: nothing is left behind; what cuts a machine off is a black hole, as a pulled cable is.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess

IS_POSSIBLE = os.geteuid() == 0 and shutil.which("ip") is not None
WHY_NOT = "network namespaces need root and iproute2 (make system-deps)"


class Namespace:
    """One machine: `host` is the address by which it reaches this one, `prefix` starts commands in
    it.
    """

    def __init__(self, number: int) -> None:
        unique = os.getpid() % 50_000
        self.name = f"headrace-{unique}-{number}"
        self.prefix = ("ip", "netns", "exec", self.name)
        self._outside, self._inside = f"hro{unique}x{number}", f"hri{unique}x{number}"
        block = (unique * 8 + number) % 16_000
        self.host = f"169.254.{128 + block // 128}.{(block % 128) * 2}"
        self.own = f"169.254.{128 + block // 128}.{(block % 128) * 2 + 1}"
        _ip("netns", "add", self.name)
        _ip("link", "add", self._outside, "type", "veth", "peer", "name", self._inside)
        _ip("link", "set", self._inside, "netns", self.name)
        _ip("addr", "add", f"{self.host}/31", "dev", self._outside)
        _ip("link", "set", self._outside, "up")
        for command in (
            ("addr", "add", f"{self.own}/31", "dev", self._inside),
            ("link", "set", self._inside, "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self.name, *command)

    def cut(self) -> None:
        """Nothing gets through any more, in neither direction, and nobody is told."""
        _ip("link", "set", self._outside, "down")

    def heal(self) -> None:
        """Everything gets through again."""
        _ip("link", "set", self._outside, "up")

    def remove(self) -> None:
        """Take the namespace away; what runs in it runs on without a network."""
        _ip("netns", "del", self.name)
        subprocess.run(("ip", "link", "del", self._outside), capture_output=True, check=False)


class Forward:
    """Lets a namespace reach a server that listens on this machine's loopback only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str) -> int:
        """Listen there; the port."""
        self._server = await asyncio.start_server(self._accept, host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop, with every connection."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self._port)
        for source, target in ((reader, here), (there, writer)):
            task = asyncio.create_task(_pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True)
