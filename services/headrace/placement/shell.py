"""Placement's side to the outside: agents' reports in, signed desired states out.

Rule: a node is told after what concerns it is in the log, one document per node and turn; whoever
misses it pulls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence

import msgspec

from headrace.bus import subjects
from headrace.bus.interface import BusError, Message, Subscription
from headrace.events import Entry, tag_of
from headrace.events.access import ProjectErased, SecretSet
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    WorkersReleased,
)
from headrace.events.jobs import JobRequested, JobStarted
from headrace.events.nodes import NodeChanged, NodeHolds, NodeJoined
from headrace.events.pauses import GangPaused, GangPausing, GangResumed
from headrace.events.platform import LogBegan
from headrace.placement.agents import Agents, was_deleted
from headrace.placement.derived import index_of
from headrace.placement.desired import DesiredStates
from headrace.placement.durations import Durations
from headrace.placement.explain_rules import explain
from headrace.placement.heartbeats import Heartbeats
from headrace.placement.introductions import introduction
from headrace.placement.launches import Launches
from headrace.placement.refused_reports import RefusedReports
from headrace.placement.state import State
from headrace.runtime.service import Runtime
from headrace.store.interface import StoreError

RETRY_S = 0.5  # before a node that could not be told is tried again

_LOG = logging.getLogger("headrace.placement")


class PlacementShell:
    """Speaks with every node's agent while this instance leads."""

    def __init__(self, *, master_key: bytes, vault_key: bytes, grant_key: bytes) -> None:
        self._master_key, self._vault_key, self._grant_key = master_key, vault_key, grant_key
        self._runtime: Runtime | None = None
        self._agents: Agents | None = None
        self._desired: DesiredStates | None = None
        self._launches: Launches | None = None
        self._durations: Durations | None = None
        self._untold: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._subscriptions: list[Subscription] = []
        self._placed_on: dict[str, tuple[str, ...]] = {}  # job: nodes of its live attempt

    async def lead(self, runtime: Runtime) -> None:
        """Listen, watch for silence, and tell every node where things stand."""
        self._runtime = runtime
        self._launches = Launches(
            runtime.store,
            runtime.vault,
            master_key=self._master_key,
            vault_key=self._vault_key,
        )
        heartbeats = Heartbeats(runtime)
        refused = RefusedReports(runtime, asyncio.get_running_loop().time)
        self._desired = DesiredStates(self._launches, self._grant_key, refused.settled_through)
        self._durations = Durations(runtime)
        self._agents = Agents(
            runtime,
            heartbeats,
            refused,
            answer=self._answer,
            introduce=self._introduce,
            dismiss=self._dismiss,
            forewarn=self._forewarn,
        )
        state: State = runtime.state
        self._placed_on = {
            job_id: tuple(dict.fromkeys(worker.node for worker in workers))
            for job_id, workers in index_of(state).running.items()
        }
        self._tell(state.machines)
        self._tasks = [
            asyncio.create_task(heartbeats.watch()),
            asyncio.create_task(self._durations.watch()),
            asyncio.create_task(self._telling()),
        ]
        await self._agents.open()
        self._subscriptions = [
            await runtime.bus.listen(subjects.log(tag_of(JobRequested)), self._launches.heard),
            await runtime.bus.subscribe(subjects.WHY, self._asked_why),
        ]

    async def committed(self, entries: Sequence[Entry]) -> None:
        """Whatever concerns a node makes it due to be told."""
        for entry in entries:
            event = entry.event
            if isinstance(event, GangPlaced | GangGrown):
                nodes = dict.fromkeys(worker.node for worker in event.workers)
                self._tell(nodes)
                if isinstance(event, GangGrown):  # beside those that have gone and are not told yet
                    nodes = dict.fromkeys((*self._placed_on.get(event.job, ()), *nodes))
                self._placed_on[event.job] = tuple(nodes)
            elif isinstance(
                event, GangEvicted | GangShrunk | GangPausing | GangPaused | GangResumed
            ):
                self._tell(self._placed_on.get(event.job, ()))
            elif isinstance(event, GangReleased | WorkersReleased):
                self._tell(self._placed_on.get(event.job, ()))
                self._released(event)
            elif isinstance(event, JobStarted) and self._durations is not None:
                self._durations.runs(event.job)
            elif isinstance(event, NodeJoined | NodeChanged | NodeHolds):
                self._tell((event.node,))
            elif isinstance(event, LogBegan) and self._runtime is not None:
                self._tell(self._runtime.state.machines)
            elif isinstance(event, ProjectErased | SecretSet) and self._launches is not None:
                self._launches.forget_keys()

    def _released(self, event: GangReleased | WorkersReleased) -> None:
        if isinstance(event, GangReleased):
            self._placed_on.pop(event.job, None)
            if self._durations is not None:
                self._durations.ended(event.job)
        if self._desired is not None:
            ranks = event.ranks if isinstance(event, WorkersReleased) else ()
            self._desired.forget(event.job, event.attempt, ranks)

    async def close(self) -> None:
        """Another instance leads now, or the service stops."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for subscription in self._subscriptions:
            await subscription.stop()
        if self._agents is not None:
            await self._agents.close()
        self._tasks, self._subscriptions = [], []
        self._untold.clear()
        self._placed_on.clear()
        self._runtime = self._agents = self._desired = self._launches = self._durations = None

    def _tell(self, nodes: Iterable[str]) -> None:
        self._untold.update(dict.fromkeys(nodes))
        if self._untold:
            self._wake.set()

    async def _telling(self) -> None:
        """Publish the documents of the nodes that are due, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._untold = list(self._untold), {}
            for node in due:
                if not await self._told(node):
                    self._untold[node] = None
            if self._untold:
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    async def _told(self, node: str) -> bool:
        """Publish one node's document if it has news; false when it has to be tried again."""
        assert self._runtime is not None  # runs between `lead` and `close`
        try:
            document = await self._document(node, unless_known=True)
            if document:
                await self._send(node, subjects.agent_down(node, "desired"), document)
        except (StoreError, BusError) as error:
            _LOG.warning("node not told node=%s error=%s", node, type(error).__name__)
            return False
        return True

    async def _send(self, node: str, subject: str, document: bytes) -> None:
        """Raises `BusError`: then the node was not told, whatever comes next."""
        assert self._runtime is not None
        assert self._desired is not None
        try:
            await self._runtime.bus.publish(subject, document)
        except BusError:
            self._desired.forget_told(node)
            raise

    async def _answer(self, node: str, reply: str, renewed_ns: int) -> None:
        """Answer an agent with its document; it asks again when this fails."""
        if self._runtime is None:
            return
        try:
            document = await self._document(node, renewed_ns)
            if document:
                await self._send(node, reply or subjects.agent_down(node, "desired"), document)
        except (StoreError, BusError) as error:
            _LOG.warning("agent not answered node=%s error=%s", node, type(error).__name__)

    async def _introduce(self, node: str, reply: str) -> None:
        """Tell an agent whom it may measure the network to; it asks again when this fails."""
        if self._runtime is None or not reply:
            return
        peers = introduction(self._runtime.state, node, self._grant_key)
        with contextlib.suppress(BusError):
            await self._runtime.bus.publish(reply, msgspec.json.encode(peers))

    async def _dismiss(self, node: str, reply: str, why: str) -> None:
        """Tell an agent that it is not believed to be this node."""
        document = self._dismissal(node, why)
        if self._runtime is not None and document and reply:
            with contextlib.suppress(BusError):
                await self._runtime.bus.publish(reply, document)

    async def _forewarn(self, node: str, reply: str) -> None:
        """Tell an agent which line of history this log is in; it asks again when this fails."""
        runtime, desired = self._runtime, self._desired
        if runtime is not None and desired is not None:
            signed = desired.foreword(runtime.state, node, (runtime.epoch, runtime.position))
            subject = reply or subjects.agent_down(node, "desired")
            with contextlib.suppress(BusError):
                await runtime.bus.publish(subject, msgspec.json.encode(signed))

    def _dismissal(self, node: str, why: str) -> bytes:
        runtime, desired = self._runtime, self._desired
        if runtime is None or desired is None:
            return b""
        return msgspec.json.encode(desired.dismissal(node, runtime.epoch, runtime.position, why))

    async def _document(
        self, node: str, renewed_ns: int = 0, *, unless_known: bool = False
    ) -> bytes:
        """The node's signed document as it stands now; empty when the node is not known, this
        instance does not lead any more, or it was told the same `unless_known`.
        """
        runtime, desired = self._runtime, self._desired
        while runtime is not None and desired is not None and runtime.leading:
            state: State = runtime.state
            if state.members.get(node) == "":
                return self._dismissal(node, was_deleted(node))
            if node not in state.machines:
                break
            await desired.prepare(state, node)
            at = (runtime.epoch, runtime.position)
            said = desired.said(runtime.state, node)
            if said is not None:
                if unless_known and desired.is_told(said):
                    break
                return msgspec.json.encode(desired.document(said, at, renewed_ns))
        return b""

    async def _asked_why(self, message: Message) -> None:
        """Somebody asks why a job is where it is: the job's id in, an `Explanation` out."""
        if self._runtime is None or not message.reply:
            return
        job = message.data.decode("utf-8", "replace")
        found = explain(self._runtime.state, job, self._runtime.now_us())
        if found is not None:
            found = msgspec.structs.replace(found, position=self._runtime.position)
        await self._runtime.bus.publish(message.reply, msgspec.json.encode(found))
