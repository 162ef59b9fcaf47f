"""The two kinds of bus under test, with the same handle for making clients of one."""

from __future__ import annotations

import asyncio
import uuid

from headrace.bus.interface import StreamSpec
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.bus.nats import NatsBus

WAIT_S = 60.0


class MemoryBuses:
    """Clients of one `MemoryBroker`."""

    def __init__(self):
        self._broker = MemoryBroker()
        self._made = []
        self.prefix = "test"

    async def client(self):
        bus = MemoryBus(self._broker, f"client-{len(self._made)}")
        self._made.append(bus)
        return bus

    def spec(self, **limits):
        return _spec(self.prefix, limits)

    async def close(self):
        for bus in self._made:
            await bus.close()


class NatsBuses:
    """Clients of one server, with names of their own on it."""

    def __init__(self, url):
        self._url = url
        self._made = []
        self.prefix = f"test{uuid.uuid4().hex[:12]}"

    async def client(self):
        bus = await NatsBus.connect(self._url)
        self._made.append(bus)
        return bus

    def spec(self, **limits):
        return _spec(self.prefix, limits)

    async def close(self):
        if self._made:
            cleaner = await NatsBus.connect(self._url)
            await cleaner.delete_stream(self.prefix)
            await cleaner.close()
        for bus in self._made:
            await bus.close()


class Heard:
    """A handler that keeps what it gets, and fails while `fails` says so."""

    def __init__(self, fails=lambda _message: False):
        self.messages = []
        self._fails = fails
        self._changed = asyncio.Event()

    async def __call__(self, message):
        self.note(message)

    def note(self, message):
        """The same for `listen`."""
        self.messages.append(message)
        self._changed.set()
        if self._fails(message):
            raise ValueError(f"cannot take {message.data!r}")

    @property
    def data(self):
        return [message.data for message in self.messages]

    async def until(self, condition):
        """Wait until `condition` holds for what was heard so far; that is returned."""
        async with asyncio.timeout(WAIT_S):
            while not condition(self.data):
                self._changed.clear()
                await self._changed.wait()
        return self.data

    async def count(self, number):
        """Wait for so many messages; the data of all."""
        return await self.until(lambda data: len(data) >= number)

    async def has(self, data):
        """Wait for a message; the data of all."""
        return await self.until(lambda heard: data in heard)


def _spec(prefix, limits):
    plain = {"age_s_max": 3600, "bytes_max": 2**20} | limits
    return StreamSpec(name=prefix, subjects=(f"{prefix}.kept.>",), **plain)
