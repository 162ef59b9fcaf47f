"""The agent: takes the node's signed desired state, acts on it, reports, and is heard.

Rule: it runs nothing that placement has not signed, obeys nothing older than what it obeyed last,
and leaves running whatever no document names. Everything it knows it can lose.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Assignment, Desired, Pull
from headrace.bus.interface import BusError, Message, Subscription
from headrace.node_agent import reconcile as todo
from headrace.node_agent.device_care import DeviceCare
from headrace.node_agent.dismissal import Dismissal
from headrace.node_agent.granted import verified
from headrace.node_agent.heartbeats import Heartbeats
from headrace.node_agent.leasing import Leasing
from headrace.node_agent.lineage import Lineages, Step
from headrace.node_agent.log_requests import LogRequests
from headrace.node_agent.machine import AttemptKey, End, Seen
from headrace.node_agent.reporting import Reporter, record_run, report_of
from headrace.node_agent.saying import Saying
from headrace.node_agent.sessions import Sessions
from headrace.node_agent.starting import Starter
from headrace.node_agent.supervision import kernel
from headrace.node_agent.surroundings import Surroundings
from headrace.node_agent.tasks import end_tasks, wait_until

PULL_S = 30.0  # between two asks for the whole document
HELLO_S_FIRST, HELLO_S_MAX = 0.2, 10.0  # between two hellos while nobody answers
ANSWER_S = 5.0
BEFORE_HELLO_S = 0.5  # for what placement believes of the node, before it is told otherwise

_LOG = logging.getLogger("headrace.node_agent")
_ENCODER = msgspec.json.Encoder()


class Agent:
    """One node's agent. `run` it as a task; cancel the task to end it, which stops no worker."""

    def __init__(self, given: Surroundings) -> None:
        self._given, self._name = given, given.node.node
        self._bus, self._machine, self._journal = given.bus, given.machine, given.journal
        self._desired: dict[AttemptKey, Assignment] = {}
        self._leasing = Leasing(given.lease, given.machine)
        self._last_document, self._dismissal = b"", Dismissal()
        self._lineages = Lineages(given.journal)
        self._reporter = Reporter(self._bus, self._journal, self._name, self._receive)
        self._logs = LogRequests(self._bus, self._machine)
        self._sessions = Sessions(self._bus, self._machine, self._name)
        self._known, self._pull_due = asyncio.Event(), asyncio.Event()
        self._care = DeviceCare(
            given.enforcer,
            given.machine,
            given.journal,
            aside=given.aside,
            now_us=given.now_us,
            reported=self._reporter.wake,
        )
        self._starter = Starter(given, self._care)
        self._saying = Saying(given.node, self._journal, self._machine, self._care, given.prober)
        self._heartbeats = Heartbeats(
            self._bus,
            self._name,
            self._journal,
            self._care,
            self._machine,
            said=lambda: (self._saying.said(), self._strays()),
            changed=self._say_again,
            missed=self._pull_due.set,
            looked=self._leasing.end_uncovered,
        )
        self._is_known = False  # placement's documents speak of this incarnation
        self._ending: set[AttemptKey] = set()  # first named to be ended

    @property
    def is_ready(self) -> bool:
        """Whether placement knows this node and it can be told what to do."""
        return self._is_known and self._bus.connected and not self._lineages.refused

    def condition(self) -> dict[str, object]:
        """Where it stands, for people."""
        epoch, position = self._journal.taken
        return {
            "ready": self.is_ready,
            "bus": self._bus.connected,
            "known": self._is_known,
            "epoch": epoch,
            "position": position,
            "lineage": self._journal.lineage.name,
            "follows": not self._lineages.refused,
            "strays": len(self._strays()),
            "attempts": len(self._desired),
            "owed": len(self._journal.unrecorded()),
        }

    async def run(self) -> None:
        """Work until cancelled. Raises `Dismissed` when placement does not believe it."""
        await self._machine.open(self._look_at)
        await self._care.look()  # before anybody is told what there is
        subscriptions: list[Subscription] = []
        tasks: list[asyncio.Task[None]] = []
        try:
            handlers = {
                "desired": self._told, "logs": self._logs.asked, "session": self._sessions.asked,
            }  # fmt: skip
            for what, handler in handlers.items():
                subject = subjects.agent_down(self._name, what)
                subscriptions.append(await self._bus.subscribe(subject, handler))
            for key in dict.fromkeys([*self._machine.held(), *self._journal.attempts()]):
                self._look_at(key)
            works = [
                self._reporter.run(),
                self._heartbeats.run(),
                self._care.guard(),
                self._keep_in_touch(),
                self._dismissal.given(),
                self._starter.tend(),
            ]
            works += [self._given.prober.run(self._bus)] if self._given.prober is not None else []
            tasks.extend(asyncio.create_task(work) for work in works)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # none of them ends unless something is badly wrong
        finally:
            await end_tasks(tasks)
            await self._care.close()
            await self._starter.close()
            await self._reporter.stop()
            await self._logs.stop()
            await self._sessions.stop()
            for subscription in subscriptions:
                await subscription.stop()
            await self._machine.close()

    async def _keep_in_touch(self) -> None:
        """Say hello until placement knows this incarnation, then pull; again after every gap."""
        if self._journal.is_new:
            await self._ask_what_was()
        pause_s = HELLO_S_FIRST
        while True:
            if self._is_known:
                await wait_until(self._pull_due, self._leasing.pull_every_s(PULL_S))
                self._pull_due.clear()
                if self._is_known:
                    pause_s = HELLO_S_FIRST
                    await self._ask("pull", self._pull())
                continue
            self._known.clear()
            await self._ask("hello", self._saying.hello())
            await wait_until(self._known, pause_s)  # placement may be making up its mind
            pause_s = min(pause_s * 2, HELLO_S_MAX)

    async def _ask_what_was(self) -> None:
        """After a reboot, or without a journal: what placement granted before is not started."""
        with contextlib.suppress(BusError):
            subject = subjects.agent_up(self._name, "pull")
            answer = await self._bus.request(subject, b"", timeout_s=BEFORE_HELLO_S)
            desired = verified(answer.data, self._name, self._given.is_granted)
            if desired is None or desired.incarnation == self._journal.incarnation:
                return
            if self._lineages.step(desired) is Step.OBEY:
                self._journal.reboot(desired.position)

    async def _ask(self, what: str, data: bytes) -> None:
        with contextlib.suppress(BusError):
            subject = subjects.agent_up(self._name, what)
            answer = await self._bus.request(subject, data, timeout_s=ANSWER_S)
            self._receive(answer.data)

    async def _told(self, message: Message) -> None:
        """A document, or an empty message: a hint that there is a new one."""
        if message.data:
            self._receive(message.data)
        else:
            self._pull_due.set()

    def _receive(self, data: bytes) -> None:
        if not data or (self._is_known and data == self._last_document):
            return  # what was said anew may be answered with what was known already
        desired = verified(data, self._name, self._given.is_granted)
        if desired is None:
            return
        if desired.dismissed:
            self._dismissal.give(desired.dismissed)
            return
        match self._lineages.step(desired):
            case Step.IGNORE:
                return
            case Step.FOLLOW:
                self._follow(desired)
                return
        if desired.incarnation != self._journal.incarnation:
            self._is_known = False  # it speaks to what this node was before
            self._pull_due.set()
            if self._journal.is_new:
                self._journal.reboot(desired.position)
            return
        if (desired.epoch, desired.position) < self._journal.taken:
            return
        self._last_document = data
        self._is_known = True
        self._known.set()
        self._leasing.renew(desired.renewed_ns)
        self._obey(desired)

    def _follow(self, desired: Desired) -> None:
        """The log goes on from an older copy: tell placement what is here, and obey it from then on."""
        self._lineages.follow(desired)
        self._desired, self._last_document = {}, b""
        self._reporter.begin_anew()
        self._say_again()
        for key in dict.fromkeys([*self._machine.held(), *self._journal.attempts()]):
            self._look_at(key)

    def _strays(self) -> frozenset[AttemptKey]:
        """What runs here and no document names, but to end it: placement hears when it has ended.
        Nothing can be said of it before there was a document.
        """
        if self._journal.is_new:
            return frozenset()
        held = {key: self._machine.look(key) for key in self._machine.held()}
        named = self._desired.keys() - self._ending
        return frozenset(
            key
            for key, seen in held.items()
            if key not in named and seen is not None and seen.end is None
        )

    def _pull(self) -> bytes:
        lineage, (_, obeyed) = self._journal.lineage.name, self._journal.taken
        return _ENCODER.encode(Pull(sent_ns=kernel.boottime_ns(), lineage=lineage, obeyed=obeyed))

    def _obey(self, desired: Desired) -> None:
        before = self._desired
        self._desired = {todo.key_of(wanted): wanted for wanted in desired.assignments}
        self._ending = {
            key
            for key, wanted in self._desired.items()
            if wanted.stop and (key in self._ending or key not in before)
        }
        self._journal.take(desired.epoch, desired.position)
        settled = self._journal.recorded(desired.recorded_through)
        changed = [key for key, wanted in self._desired.items() if before.get(key) != wanted]
        gone = [key for key in before if key not in self._desired]
        leased = self._leasing.follow(self._desired)
        self._given.network.follow(desired.assignments)
        for key in dict.fromkeys([*changed, *gone, *settled, *leased]):
            self._look_at(key)

    def _look_at(self, key: AttemptKey) -> None:
        """Bring one attempt closer to what is wanted of it."""
        assignment, seen = self._desired.get(key), self._machine.look(key)
        if assignment is None or assignment.stop:
            self._starter.drop(key)
        reported = self._journal.reported(key)
        for action in todo.reconcile(assignment, seen, reported, self._journal.rebooted_at):
            self._do(key, action, assignment, seen)

    def _do(
        self, key: AttemptKey, action: todo.Action, assignment: Assignment | None, seen: Seen | None
    ) -> None:
        match action:
            case todo.Start() if self._leasing.may_start(action.assignment):
                self._start(key, action.assignment)
            case todo.Start():
                self._leasing.want(key, self._pull_due)
            case todo.Stop():
                self._machine.stop(key, action.reason, action.grace_s, action.signal)
            case todo.Move():
                self._machine.move(action.assignment)
            case todo.ReportMoved():
                self._reporter.moved(key, assignment, action.pause, self._given.now_us())
            case todo.ReportStarted():
                self._report("started", key, assignment, seen, at_us=action.at_us)
            case todo.ReportExited() if seen is None and not self._machine.bar(key, action.end):
                self._look_at(key)
            case todo.ReportExited():
                if end := self._starter.ended(key, action.end, lambda: self._look_at(key)):
                    self._report_end(key, end, assignment, seen)
            case todo.Forget():
                self._journal.forget(key)
                self._machine.forget(key)

    def _start(self, key: AttemptKey, assignment: Assignment) -> None:
        if end := self._starter.start(assignment, then=lambda: self._look_at(key)):
            self._report_end(key, end, assignment, None)

    def _report_end(
        self, key: AttemptKey, end: End, assignment: Assignment | None, seen: Seen | None
    ) -> None:
        end = self._care.told(key, end, seen)
        self._report("exited", key, assignment, seen, at_us=end.ended_at_us, end=end)
        record_run(key, assignment or seen, end)
        self._reporter.wake()

    def _report(
        self,
        what: str,
        key: AttemptKey,
        assignment: Assignment | None,
        seen: Seen | None,
        *,
        at_us: int,
        end: End | None = None,
    ) -> None:
        at_us = at_us or self._given.now_us()
        self._journal.add(report_of(what, key, assignment, seen, at_us=at_us, end=end))
        self._reporter.wake()

    def _say_again(self) -> None:
        """Placement is to hear what this node is now."""
        self._is_known = False
        self._pull_due.set()
