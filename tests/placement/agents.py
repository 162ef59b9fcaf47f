"""Placement over the real runtime, and an agent that speaks its protocol, for tests."""

import asyncio
import base64
import time

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Desired, Hello, Launch, Report, Reports, Signed
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.events import Header, decode, encode, project_of, stream_of, tag_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobAdmitted, JobEligible, JobRequested
from headrace.events.nodes import Device, NodeJoined
from headrace.placement.decide import DECIDER
from headrace.placement.requests import change_node
from headrace.placement.shell import PlacementShell
from headrace.placement.state import SETTINGS
from headrace.runtime.host import Host
from headrace.runtime.service import Service
from headrace.store.interface import NewEvent
from headrace.store.memory import MemoryLog, MemoryStore
from headrace.vault import new_box_keys, new_signing_keys, open_with, seal, verify
from headrace.vault.project_keys import ProjectKeys

MASTER = b"m" * 32
WAIT_S = 60.0


class Platform:
    """A log, a bus, and placement leading; `append` is every other service."""

    def __init__(self, settings):
        self.log = MemoryLog()
        self.ahead_us = 0  # the clock of the database, of all others
        self.broker = MemoryBroker()
        self.store = self.new_store()
        self.bus = MemoryBus(self.broker, "test")
        self.vault_private, self.vault_public = new_box_keys()
        self.grant_private, self.grant_public = new_signing_keys()
        self.settings = SETTINGS | settings
        self.running = None
        self.epoch = 0

    def new_store(self):
        return MemoryStore(self.log, lambda: time.time_ns() // 1000 + self.ahead_us)

    async def start(self):
        shell = PlacementShell(
            master_key=MASTER, vault_key=self.vault_private, grant_key=self.grant_private
        )
        service = Service(
            decider=DECIDER,
            shell=shell,
            requests={"node.change": change_node},
            settings=self.settings,
        )
        self.host = Host(
            service,
            store=self.new_store(),
            bus=MemoryBus(self.broker, f"placement-{id(shell)}"),
            vault=self.store,
            monotonic_s=time.monotonic,
            holder="placement-a",
            decision_version="v",
        )
        self.running = asyncio.create_task(self.host.run())
        await until(lambda: self.host.leading)

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
                header=encode(Header(traceparent="00-trace")),
            )
            for event in events
        ]  # fmt: skip
        appended = await self.store.append("test", self.epoch, head.position, head.hash, new)
        self.host.reader._read_due = True
        self.host.wake()
        return appended.events[0].position

    def events(self, kind):
        tag = tag_of(kind)
        return [decode(s.type, s.data) for s in self.log.events if s.type == tag]

    def position_of(self, kind):
        tag = tag_of(kind)
        return next(s.position for s in self.log.events if s.type == tag)

    async def submit(self, job, launch, secrets=(), **fields):
        key_id, key = await ProjectKeys(self.store, MASTER).current("vision")
        group = fields.get("group", "") or job
        sealed = seal(key, msgspec.json.encode(launch), f"launch:{group}".encode())
        gang = fields.pop("gang", Gang(accelerators=(Accelerator(milli=1000),)))
        position = await self.append(
            JobRequested(
                job=group, project="vision", name="x", user="ada", gang=gang, launch=sealed,
                launch_key=key_id, secrets=secrets, trials=fields.pop("trials", ()),
            )
        )  # fmt: skip
        await self.append(
            JobAdmitted(
                job=job, project="vision", name="x", user="ada", gang=gang, requested_at=position,
                priority=40, **fields,
            ),
            JobEligible(job=job, project="vision"),
        )  # fmt: skip


class Agent:
    """A node agent as the protocol has it: it hears documents and says what it is told to."""

    def __init__(self, platform, node="n1", boot="b1", incarnation="i1"):
        self.platform = platform
        self.bus = MemoryBus(platform.broker, f"agent-{node}-{boot}")
        self.private, public = new_box_keys()
        devices = tuple(
            Device(device=f"{node}-{i}", index=i, model="H100-80GB", memory_bytes=80 * 10**9)
            for i in range(2)
        )
        self.said = NodeJoined(
            node=node, host=node, address="10.0.0.1", boot=boot, incarnation=incarnation,
            public_key=base64.b64encode(public).decode(), devices=devices, cpu_milli=8000,
            memory_bytes=10**12,
        )  # fmt: skip
        self.desired = None
        self.sequence = 0

    def take(self, data):
        signed = msgspec.json.decode(data, type=Signed)
        assert verify(self.platform.grant_public, signed.document, signed.signature)
        desired = msgspec.json.decode(signed.document, type=Desired)
        if self.desired is None or desired.position >= self.desired.position:  # as agents do
            self.desired = desired
        return desired

    async def start(self):
        async def hear(message):
            self.take(message.data)

        await self.bus.subscribe(subjects.agent_down(self.said.node, "desired"), hear)
        return await self.ask("hello", Hello(node=self.said))

    async def ask(self, what, body):
        subject = subjects.agent_up(self.said.node, what)
        answer = await self.bus.request(subject, msgspec.json.encode(body), timeout_s=WAIT_S)
        return self.take(answer.data)

    def report(self, what, assignment, **fields):
        self.sequence += 1
        return Report(
            sequence=self.sequence, what=what, job=assignment.job, attempt=assignment.attempt,
            rank=assignment.rank, project=assignment.project, at_us=1, **fields,
        )  # fmt: skip

    async def send(self, *reports):
        body = Reports(
            node=self.said.node, boot=self.said.boot, incarnation=self.said.incarnation,
            reports=reports,
        )  # fmt: skip
        return await self.ask("report", body)

    async def granted(self):
        await until(lambda: self.desired is not None and self.desired.assignments)
        return self.desired.assignments[0]

    def launch(self, assignment):
        context = f"launch:{assignment.job}/{assignment.attempt}/{assignment.rank}".encode()
        data = open_with(self.private, assignment.sealed, context)
        return msgspec.json.decode(data, type=Launch)


async def until(true):
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110  # a condition of another task, with a deadline
            await asyncio.sleep(0.005)
