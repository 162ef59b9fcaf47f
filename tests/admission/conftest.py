"""Admission over the real runtime, with the in-memory log and bus."""

import asyncio
import base64
import time
from types import SimpleNamespace

import msgspec
import nkeys
import pytest

from headrace.admission.__main__ import service_of
from headrace.bus.agents import Launch
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.events import Header, decode, encode, project_of, stream_of, tag_of
from headrace.events.queues import Queue, QueueConfigured
from headrace.runtime import host
from headrace.runtime.host import Host
from headrace.runtime.publishing import publish
from headrace.store.interface import NewEvent
from headrace.store.memory import MemoryLog, MemoryStore
from headrace.vault import open_sealed
from headrace.vault.project_keys import ProjectKeys

MASTER = b"m" * 32
WAIT_S = 60.0


def account_seed():
    return bytes(nkeys.encode_seed(b"a" * 32, nkeys.PREFIX_BYTE_ACCOUNT))


class Platform:
    """A log, a bus, and admission leading; `append` is every other service."""

    def __init__(self):
        self.log, self.broker = MemoryLog(), MemoryBroker()
        self.store = self.new_store()
        self.bus = MemoryBus(self.broker, "test")
        self.epoch = 0
        self.keys = 0

    def new_store(self):
        return MemoryStore(self.log, lambda: time.time_ns() // 1000)

    async def start(self):
        keys = {"master.key": MASTER, "account.seed": account_seed()}
        self.host = Host(
            service_of(SimpleNamespace(key=keys.__getitem__)),
            store=self.new_store(),
            bus=MemoryBus(self.broker, f"admission-{time.monotonic_ns()}"),
            vault=self.new_store(),
            monotonic_s=time.monotonic,
            holder="admission-a",
            decision_version="v",
        )
        self.running = asyncio.create_task(self.host.run())
        await self.until(lambda: self.host.leading)

    async def stop(self):
        await self.host.stop()
        await asyncio.wait_for(self.running, WAIT_S)
        await self.host.bus.close()

    async def append(self, *events):
        if not self.epoch:
            self.epoch = (await self.store.lead("test", "test", 600.0)).epoch
        head = await self.store.head()
        new = [
            NewEvent(
                stream=stream_of(event), type=tag_of(event), project=project_of(event),
                data=encode(event),
                header=encode(Header()),
            )
            for event in events
        ]  # fmt: skip
        appended = await self.store.append("test", self.epoch, head.position, head.hash, new)
        await publish(self.bus, appended.events)

    async def folded(self):
        head = await self.store.head()
        await self.until(lambda: self.host.position >= head.position)

    async def ask(self, verb, body, project="vision", key="", door="gateway"):
        self.keys += 1
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"ce-id": key or f"k{self.keys}", "Headrace-Actor": "ada", "ce-source": "/x"}
        headers["ce-type"] = f"headrace.{verb.replace('-', '_')}.v1"
        headers["ce-specversion"] = "1.0"
        sender = f"{project}.etl" if door == "request" else project
        subject = f"headrace.{door}.{sender}.{verb}"
        answer = await self.bus.request(subject, data, headers, timeout_s=WAIT_S)
        return msgspec.json.decode(answer.data)

    async def submit(self, project="vision", key="", **fields):
        return await self.ask("job.submit", {"command": "true"} | fields, project, key)

    def events(self, kind):
        tag = tag_of(kind)
        return [decode(s.type, s.data) for s in self.log.events if s.type == tag]

    async def opened(self, requested):
        """What the request runs, as placement reads it; None when its key is gone."""
        key = await ProjectKeys(self.store, MASTER).by_id(requested.launch_key)
        if key is None:
            return None
        context = f"launch:{requested.job}".encode()
        return msgspec.json.decode(open_sealed(key, requested.launch, context), type=Launch)

    async def until(self, true):
        async with asyncio.timeout(WAIT_S):
            while not true():  # noqa: ASYNC110  # a condition of another task, with a deadline
                await asyncio.sleep(0.005)


def configured(name):
    queue = Queue(queue=name, kind="project")
    return QueueConfigured(name=name, queue=queue, change="created")


def sealed(value=b"sealed value"):
    return base64.b64encode(value).decode()


@pytest.fixture
async def platform(monkeypatch):
    monkeypatch.setattr(host, "LEASE_S", 60.0)  # it leads, though the machine stands still
    platform = Platform()
    await platform.start()
    await platform.append(configured("vision"))
    yield platform
    await platform.stop()
    await platform.bus.close()
