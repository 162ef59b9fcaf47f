"""What node agents send, made into facts once each, and answered with what should run.

Rule: an agent's word is taken for its own node only: for what the log placed there, and for devices
that are no other node's. Reports are recorded in the order of its
journal without gaps: what is missing comes again, what came before is left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Hello, Pull, Reports, Signal
from headrace.bus.interface import Message, Subscription
from headrace.events import Fact
from headrace.events.nodes import (
    DeviceContested,
    NodeAhead,
    NodeContested,
    NodeHolds,
    NodeJoined,
)
from headrace.placement.claims import Claims, Verdict
from headrace.placement.heartbeats import Heartbeats
from headrace.placement.lineage_rules import strays_of
from headrace.placement.refused_reports import RefusedReports
from headrace.placement.report_checks import contested_device, report_refusal
from headrace.placement.report_facts import fact_of
from headrace.placement.state import Machine, State
from headrace.runtime.service import Runtime

REPORTS_MAX = 256  # in one message; an agent sends the rest in the next
ANSWERS_MAX = 10_000  # answers being waited for; beyond that agents ask again

_HELLO = msgspec.json.Decoder(Hello)
_PULL = msgspec.json.Decoder(Pull)
_REPORTS = msgspec.json.Decoder(Reports)
_SIGNAL = msgspec.json.Decoder(Signal)
_LOG = logging.getLogger("headrace.placement")

Dismiss = Callable[[str, str, str], Awaitable[None]]  # node, reply subject, why
Answer = Callable[[str, str, int], Awaitable[None]]
"""Node, reply subject ("": the node's own), and the renewal that this answers (0: none)."""
Forewarn = Callable[[str, str], Awaitable[None]]  # node, reply subject
Introduce = Callable[[str, str], Awaitable[None]]  # node, reply subject


class Agents:
    """Receives from all agents while this instance leads. `answer` sends a node its document: that
    is how it learns which of its reports are recorded. `introduce` tells it its peers, `dismiss`
    turns away who is not the node, `forewarn` tells one that follows another log which this is.
    """

    def __init__(
        self,
        runtime: Runtime,
        heartbeats: Heartbeats,
        refused: RefusedReports,
        *,
        answer: Answer,
        introduce: Introduce,
        dismiss: Dismiss,
        forewarn: Forewarn,
    ) -> None:
        self._runtime, self._heartbeats, self._refused = runtime, heartbeats, refused
        self._answer, self._introduce, self._dismiss = answer, introduce, dismiss
        self._forewarn = forewarn
        self._claims = Claims(asyncio.get_running_loop().time)
        self._queued: dict[tuple[str, str], int] = {}  # last report queued, by node and journal
        self._saying: dict[str, NodeJoined] = {}  # inventories on their way into the log
        self._holding: dict[str, asyncio.Future[int]] = {}  # by node: the last that was recorded
        self._contested: dict[str, str] = {}  # by node: the newcomer or the device recorded last
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscriptions: list[Subscription] = []
        self._on: dict[str, Callable[[str, Message], None]] = {
            "hello": self._hello,
            "report": self._report,
            "pull": self._pull,
            "peers": lambda node, message: self._start(self._introduce(node, message.reply)),
            "signal": self._signal,
        }

    async def open(self) -> None:
        """Start receiving."""
        for what in subjects.SAID_TO_PLACEMENT:
            heard = await self._runtime.bus.listen(subjects.agents_up(what), self._received)
            self._subscriptions.append(heard)

    async def close(self) -> None:
        """Stop receiving; agents repeat to the next leader."""
        for subscription in self._subscriptions:
            await subscription.stop()
        for task in self._tasks:
            task.cancel()

    def _received(self, message: Message) -> None:
        _, _, node, _, what = message.subject.split(".")
        receive = self._on.get(what)
        if receive is None:
            return
        if self._runtime.state.members.get(node) == "" and what != "hello":
            if message.reply:  # its leave to use the bus outlasts it
                self._start(self._dismiss(node, message.reply, was_deleted(node)))
            return
        self._heartbeats.heard(node)
        try:
            receive(node, message)
        except msgspec.MsgspecError as error:
            _LOG.warning("agent message not understood node=%s what=%s: %s", node, what, error)

    def _hello(self, node: str, message: Message) -> None:
        hello = _HELLO.decode(message.data)
        said = hello.node
        if said.node != node:
            _LOG.warning("agent speaks for another node node=%s says=%s", node, said.node)
            return
        if hello.lineage not in ("", self._lineage):
            self._start(self._forewarn(node, message.reply))
            return
        verdict = self._claims.judge(said, self._runtime.state)
        if verdict is not Verdict.BELIEVED:
            self._turn_away(said, verdict, message.reply)
            return
        machine = self._machine(node)
        strays = strays_of(self._runtime.state, node, hello.running)
        held = NodeHolds(node=node, incarnation=said.incarnation, workers=strays)
        is_same = machine is not None and machine.strays == strays and self._knows_held(node)
        changes: list[Fact] = [] if is_same or (machine is None and not strays) else [held]
        if machine is not None and machine.said == said and not machine.apart:
            self._start(self._after(self._recorded(changes), node, message.reply))
            return
        if (device := self._contested_device(said))[0]:
            self._refuse_device(said, *device, message.reply)
            return
        self._saying[node] = said
        # What it holds comes first: its devices are not free for a moment.
        facts = [*changes, said] if machine is not None else [said, *changes]
        self._start(self._after(self._recorded(facts), node, message.reply))

    def _recorded(self, facts: list[Fact]) -> list[Awaitable[int]]:
        recorded = [asyncio.ensure_future(self._runtime.record(fact)) for fact in facts]
        for fact, folded in zip(facts, recorded, strict=True):
            if isinstance(fact, NodeHolds):
                self._holding[fact.node] = folded
        return [*recorded]

    def _knows_held(self, node: str) -> bool:
        """Whether all that the node said of what it holds is folded: what an agent said while it was cut
        off comes at once, and its last word must not be compared with what was before its first.
        """
        return node not in self._holding or self._holding[node].done()

    @property
    def _lineage(self) -> str:
        state: State = self._runtime.state
        return state.lineage.name

    def _contested_device(self, said: NodeJoined) -> tuple[str, str]:
        """A device of another node, by the log or by what is on its way into it."""
        device, holder = contested_device(self._runtime.state, said)
        mine = {device.device for device in said.devices}
        for node, other in list(self._saying.items()):
            machine = self._machine(node)
            is_gone = self._runtime.state.members.get(node) == ""
            if is_gone or (machine is not None and machine.said == other):
                del self._saying[node]  # it has arrived
            elif node != said.node and not device:
                device = next((d.device for d in other.devices if d.device in mine), "")
                holder = node if device else ""
        return device, holder

    def _refuse_device(self, said: NodeJoined, device: str, holder: str, reply: str) -> None:
        """It says hello again; that is refused until the other node has gone, or has no such device."""
        line = (
            f"device {device} is one of node {holder}: if it was moved, restart that node's agent, "
            f"or headrace node delete {holder} (node forget, when it is silent)"
        )
        if self._contested.get(said.node) != device:
            self._contested[said.node] = device
            fact = DeviceContested(node=said.node, host=said.host, device=device, holder=holder)
            self._start(self._runtime.record(fact))
        self._start(self._dismiss(said.node, reply, line))

    def _turn_away(self, said: NodeJoined, verdict: Verdict, reply: str) -> None:
        """It says hello again; until it is told that there is no point in that."""
        machine = self._machine(said.node)
        if verdict is Verdict.STRANGER:
            line = f"node {said.node} has other keys than this machine: join anew (node join)"
            if not self._runtime.state.members[said.node]:
                line = was_deleted(said.node)
            self._start(self._dismiss(said.node, reply, line))
        elif verdict is Verdict.SECOND and machine is not None:
            host = machine.said.host
            line = f"another agent is node {said.node}, on {host}: join with a name of its own"
            if self._contested.get(said.node) != said.incarnation:
                self._contested[said.node] = said.incarnation
                self._start(self._runtime.record(_contested(said)))
            self._start(self._dismiss(said.node, reply, line))

    def _signal(self, node: str, message: Message) -> None:
        signal = _SIGNAL.decode(message.data)
        self._claims.heard(node, signal.incarnation, self._runtime.state)
        machine = self._machine(node)
        if machine is not None and signal.incarnation == machine.said.incarnation:
            self._heartbeats.measured(node, signal.disk_permille)

    def _report(self, node: str, message: Message) -> None:
        reports = _REPORTS.decode(message.data)
        machine = self._machine(node)
        if machine is None or reports.node != node:
            return  # it says hello first
        if reports.incarnation != machine.said.incarnation or reports.boot != machine.said.boot:
            self._start(
                self._answer(node, message.reply, 0)
            )  # from which it sees that it is unknown
            return
        if machine.apart:
            self._start(self._forewarn(node, message.reply))
            return
        self._claims.heard(node, reports.incarnation, self._runtime.state)
        journal = (node, reports.incarnation)
        last = max(machine.recorded, self._queued.get(journal, 0))
        recorded: list[Awaitable[int]] = []
        for report in reports.reports[:REPORTS_MAX]:
            if report.sequence != last + 1:
                continue
            last = report.sequence
            fact = fact_of(node, reports.incarnation, report)
            why = report_refusal(self._runtime.state, node, report)
            if fact is None or why:
                self._refused.refuse(node, reports.incarnation, report, why or "cannot be read")
            else:
                recorded.append(self._runtime.record(fact, traceparent=report.traceparent))
        self._queued[journal] = last
        self._start(self._after(recorded[-1:], node, message.reply))

    def _pull(self, node: str, message: Message) -> None:
        asked = _PULL.decode(message.data) if message.data else Pull()
        if asked.lineage not in ("", self._lineage):
            self._start(self._forewarn(node, message.reply))
            return
        machine = self._machine(node)
        if machine is not None and asked.obeyed > self._runtime.position and not machine.apart:
            _LOG.error("node %s is ahead of the log obeyed=%d", node, asked.obeyed)
            ahead = NodeAhead(node=node, obeyed=asked.obeyed, head=self._runtime.position)
            self._start(self._runtime.record(ahead))
        renewed_ns = asked.sent_ns if self._heartbeats.may_renew(node) else 0
        self._start(self._answer(node, message.reply, renewed_ns))

    async def _after(self, recorded: list[Awaitable[int]], node: str, reply: str) -> None:
        """Answer once these are in the log and folded."""
        for position in recorded:
            await position
        await self._answer(node, reply, 0)

    def _machine(self, node: str) -> Machine | None:
        state: State = self._runtime.state
        return state.machines.get(node)

    def _start(self, answering: Awaitable[Any]) -> None:
        if len(self._tasks) >= ANSWERS_MAX:
            _LOG.warning("an agent is not answered waiting=%d", len(self._tasks))
            if isinstance(answering, Coroutine):
                answering.close()
            return
        task: asyncio.Task[Any] = asyncio.ensure_future(answering)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def was_deleted(node: str) -> str:
    """What the agent of a deleted node is told."""
    return f"node {node} was deleted"


def _contested(said: NodeJoined) -> NodeContested:
    return NodeContested(
        node=said.node, host=said.host, boot=said.boot, incarnation=said.incarnation
    )
