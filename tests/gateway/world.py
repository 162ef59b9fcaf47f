"""A gateway served for real, over the in-memory log and bus."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar import Litestar

from headrace import vault
from headrace.bus import subjects
from headrace.bus.interface import Message
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.client import Client
from headrace.events import Event, Header, encode, stream_of, tag_of
from headrace.gateway.app import api, application
from headrace.gateway.follower import Follower
from headrace.gateway.gateway import Gateway
from headrace.gateway.server import Server, listen
from headrace.runtime import log_messages
from headrace.store.interface import NewEvent, Stored
from headrace.store.memory import MemoryLog, MemoryStore

TOKEN = "a-token-for-tests"
SECOND_US = 1_000_000
TIMEOUT_S = 60.0
# What the gateway goes on without, or asks again, on a machine that stands still for some seconds;
# tests of that make it short.
PATIENT = ("follower.OWN_WRITE_S_MAX", "asking.REPLY_S_MAX", "asking.ANSWER_S_MAX")
_UNUSED: list[Litestar] = []  # routes of worlds that are gone: making them takes 0.2 s


class World:
    """A log, a bus, and the gateway on them. `append` plays the services that own the events."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.folder = tempfile.TemporaryDirectory(prefix="headrace-files-")
        self.broker = MemoryBroker()
        self.bus = MemoryBus(self.broker, "services")
        self.vault_key, public_key = vault.new_box_keys()
        self.store = MemoryStore(self.log, self.now_us)
        bus = MemoryBus(self.broker, "gateway")
        self.gateway = Gateway(
            store=self.store,
            bus=bus,
            follower=Follower(self.store, bus, time.monotonic),
            token=TOKEN,
            vault_key=public_key,
            files_dir=Path(self.folder.name),
        )
        self.asked: list[Message] = []
        self.reported: list[Message] = []  # refusals and readings, as admission would record them
        self.url = ""

    def now_us(self) -> int:
        return (len(self.log.events) + 1) * SECOND_US

    async def append(self, *events: Event, traceparent: str = "", told: bool = True) -> int:
        """Into the log by their owner, and (unless the bus loses them) onto the bus."""
        for event in events:
            stored = await self._append(event, traceparent)
            if told:
                await self.bus.publish(subjects.log(stored.type), log_messages.encode(stored))
        return len(self.log.events)

    async def answer(self, verb: str, reply: Callable[[Message], dict[str, Any] | None]) -> None:
        """Answer what the gateway asks on `verb`, as its owner; None is silence."""

        async def handle(message: Message) -> None:
            self.asked.append(message)
            answer = reply(message)
            if answer is not None:
                await self.bus.publish(message.reply, msgspec.json.encode(answer))

        noun, _, rest = verb.partition(".")
        await self.bus.subscribe(f"headrace.gateway.*.{noun}.{rest}", handle)

    def client(self, token: str = TOKEN) -> Client:
        return Client(self.url, token, "vision")

    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Run a call of the (blocking) client beside the gateway."""
        return await asyncio.wait_for(asyncio.to_thread(function, *arguments, **named), TIMEOUT_S)

    async def _append(self, event: Event, traceparent: str) -> Stored:
        service = event.owner if event.owner != "*" else "placement"
        term = await self.store.lead(service, "test", 1.0)
        head = await self.store.head()
        header = Header(
            actor="ada",
            project=getattr(event, "project", ""),
            correlation=getattr(event, "job", ""),
            traceparent=traceparent,
        )
        new = NewEvent(
            stream=stream_of(event),
            type=tag_of(event),
            project=getattr(event, "project", ""),
            header=encode(header),
            data=encode(event),
        )
        appended = await self.store.append(service, term.epoch, head.position, head.hash, [new])
        return appended.events[0]


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what comes of what was done, in the gateway's own time."""
    async with asyncio.timeout(TIMEOUT_S):
        while not is_so():  # noqa: ASYNC110 -- it is not ours to say
            await asyncio.sleep(0.001)


def later(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """Let so much time go by at once, for whoever waits on the running loop."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda now_s=loop.time: now_s() + by_s)


async def recording(world: World) -> list[Message]:
    """Admission as far as it puts on record what the gateway reports."""
    reported: list[Message] = []

    async def handle(message: Message) -> None:
        reported.append(message)
        answer = {"accepted": True, "position": len(world.log.events)}
        await world.bus.publish(message.reply, msgspec.json.encode(answer))

    await world.bus.subscribe("headrace.gateway.*.access.read", handle)
    await world.bus.subscribe("headrace.gateway.*.access.denied", handle)
    await world.bus.subscribe("headrace.gateway.*.access.signed-in", handle)
    return reported


@contextlib.asynccontextmanager
async def served_world() -> AsyncIterator[World]:
    """A world whose gateway is up and has read the log."""
    patient = pytest.MonkeyPatch()
    for limit in PATIENT:
        patient.setattr(f"headrace.gateway.{limit}", TIMEOUT_S)
    made = World()
    listening = listen("127.0.0.1:0")
    made.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    routes = _UNUSED.pop() if _UNUSED else api()
    server = Server(application(made.gateway, routes), listening)
    following = asyncio.create_task(made.gateway.follower.run())
    serving = asyncio.create_task(server.run_until_stopped())
    async with asyncio.timeout(TIMEOUT_S):
        await server.up.wait()
        await made.gateway.node_files.open()
        while not made.gateway.follower.ready:
            await made.gateway.follower.changed(TIMEOUT_S)
    made.reported = await recording(made)
    yield made
    made.gateway.follower.close()
    for accepting in server.servers:
        accepting.close()
    serving.cancel()
    following.cancel()
    await made.gateway.node_files.close()
    made.folder.cleanup()
    _UNUSED.append(routes)
    patient.undo()
