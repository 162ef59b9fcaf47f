"""What the agent answers to in the tests: placement's side of the bus."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace import vault
from headrace.bus import subjects
from headrace.bus.agents import (
    Assignment,
    Desired,
    Hello,
    Launch,
    LogsChunk,
    LogsWanted,
    Pull,
    Report,
    Reports,
    Signed,
)
from headrace.bus.interface import Bus, Message
from headrace.events.gangs import Share
from headrace.events.nodes import NodeJoined
from headrace.node_agent.devices.simulated import uuid_of
from headrace.node_agent.machine import AttemptKey

NODE = "n1"
DEADLINE_S = 60.0


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until the condition holds."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"never happened: {what}"
        await asyncio.sleep(0.005)


class Placement:
    """Says what should run, takes reports in order, and answers with signed documents."""

    def __init__(self, bus: Bus, folder: Path) -> None:
        self.bus = bus
        self.private, self.public = vault.new_signing_keys()
        (folder / "grant.pub").write_bytes(self.public)
        self.epoch, self.position = 1, 10
        self.lineage, self.lineage_epoch, self.lineage_at = "", 0, 0
        self.node: NodeJoined | None = None
        self.running: tuple[AttemptKey, ...] = ()
        self.wanted: dict[AttemptKey, Assignment] = {}
        self.launches: dict[AttemptKey, Launch] = {}
        self.recorded: dict[str, int] = {}
        self.reports: list[Report] = []
        self.signals: list[bytes] = []
        self.answers = True
        self.renews = True

    async def open(self) -> None:
        await self.bus.subscribe(subjects.AGENTS_UP, self._heard)

    async def want(
        self, job: str, *command: str, attempt: int = 1, rank: int = 0, gpus: int = 1, **of: object
    ) -> AttemptKey:
        """Place a worker on the node and send the document."""
        key = AttemptKey(job, attempt, rank)
        fields = set(Assignment.__struct_fields__)
        launch = Launch(command=command, **{k: v for k, v in of.items() if k not in fields})
        self.position += 1
        devices = tuple(Share(device=uuid_of(NODE, index)) for index in range(gpus))
        given = {"project": "vision", "shares": devices, "position": self.position}
        given |= {"user": "ada", "account": 1}
        given.update({k: v for k, v in of.items() if k in fields})
        self.launches[key] = launch
        self.wanted[key] = Assignment(job=job, attempt=attempt, rank=rank, **given)
        await self.tell()
        return key

    async def stop(
        self, key: AttemptKey, reason: str = "cancelled", grace_s: int = 10, by: str = ""
    ) -> None:
        wanted = self.wanted[key]
        self.wanted[key] = msgspec.structs.replace(
            wanted, stop=True, stop_reason=reason, grace_s=grace_s, stop_signal=by
        )
        self.position += 1
        await self.tell()

    async def move(self, key: AttemptKey, phase: str, **changes: object) -> Report:
        """Want this phase of a worker; what came of it."""
        self.position += 1
        self.wanted[key] = msgspec.structs.replace(
            self.wanted[key], phase=phase, phase_at=self.position, **changes
        )
        await self.tell()
        return await self.moved(key, self.position)

    async def moved(self, key: AttemptKey, asked_at: int) -> Report:
        """What came of the wish made at this position."""
        await until(lambda: any(r.asked_at == asked_at for r in self.of(key)), f"answer of {key}")
        return next(r for r in self.of(key) if r.asked_at == asked_at)

    async def begin(self, lineage: str, epoch: int, *, position: int) -> None:
        """The log is in this line of history from `position` on, and lacks what came after."""
        self.lineage, self.lineage_epoch, self.lineage_at = lineage, epoch, position
        self.position = position
        self.recorded.clear()
        await self.tell()

    async def tell(self) -> None:
        if self.node is not None:
            await self.bus.publish(subjects.agent_down(NODE, "desired"), self.document())

    def renewal(self, message: Message) -> int:
        """What a pull renews the lease from, if it is to."""
        if message.subject.rpartition(".")[2] != "pull" or not message.data or not self.renews:
            return 0
        return msgspec.json.decode(message.data, type=Pull).sent_ns

    def document(self, **changes: object) -> bytes:
        assert self.node is not None
        desired = Desired(
            node=NODE,
            epoch=self.epoch,
            position=self.position,
            incarnation=self.node.incarnation,
            recorded_through=self.recorded.get(self.node.incarnation, 0),
            assignments=tuple(self._sealed(key) for key in self.wanted),
            lineage=self.lineage,
            lineage_epoch=self.lineage_epoch,
            lineage_at=self.lineage_at,
        )
        document = msgspec.json.encode(msgspec.structs.replace(desired, **changes))
        signature = vault.sign(self.private, document)
        return msgspec.json.encode(Signed(document=document, signature=signature))

    def of(self, key: AttemptKey) -> list[Report]:
        return [r for r in self.reports if (r.job, r.attempt, r.rank) == key]

    def end_of(self, key: AttemptKey) -> Report | None:
        return next((r for r in self.of(key) if r.what == "exited"), None)

    async def ended(self, key: AttemptKey) -> Report:
        await until(lambda: self.end_of(key), f"end of {key}")
        end = self.end_of(key)
        assert end is not None
        return end

    async def started(self, key: AttemptKey) -> None:
        await until(lambda: [r for r in self.of(key) if r.what == "started"], f"start of {key}")

    async def logs(self, key: AttemptKey, **of: object) -> LogsChunk:
        wanted = LogsWanted(job=key.job, attempt=key.attempt, rank=key.rank, **of)
        subject = subjects.agent_down(NODE, "logs")
        answer = await self.bus.request(subject, msgspec.json.encode(wanted), timeout_s=DEADLINE_S)
        return msgspec.json.decode(answer.data, type=LogsChunk)

    def _sealed(self, key: AttemptKey) -> Assignment:
        assert self.node is not None
        public = base64.b64decode(self.node.public_key)
        context = f"launch:{key.job}/{key.attempt}/{key.rank}".encode()
        sealed = vault.seal_to(public, msgspec.json.encode(self.launches[key]), context)
        return msgspec.structs.replace(self.wanted[key], sealed=sealed)

    async def _heard(self, message: Message) -> None:
        what = message.subject.rpartition(".")[2]
        if not self.answers:
            return
        if what == "hello":
            hello = msgspec.json.decode(message.data, type=Hello)
            self.node = hello.node
            self.running = tuple(AttemptKey(h.job, h.attempt, h.rank) for h in hello.running)
        elif what == "report":
            self._record(msgspec.json.decode(message.data, type=Reports))
        elif what == "signal":
            self.signals.append(message.data)
        if message.reply and self.node is not None:
            document = self.document(renewed_ns=self.renewal(message))
            await self.bus.publish(message.reply, document)

    def _record(self, batch: Reports) -> None:
        last = self.recorded.get(batch.incarnation, 0)
        for report in batch.reports:
            if report.sequence == last + 1:
                last += 1
                self.reports.append(report)
                if report.what == "exited":
                    self.wanted.pop(AttemptKey(report.job, report.attempt, report.rank), None)
        self.recorded[batch.incarnation] = last
