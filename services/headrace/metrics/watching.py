"""Watches workspaces that end when nobody uses them.

Rule: what is seen is kept by whoever leads and nobody else; a new leader begins anew, as if they had
been used. What comes of it is admission's to decide, on what is recorded here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Progress, Reported, Signal
from headrace.bus.interface import Message, Subscription
from headrace.bus.uses import Uses
from headrace.events.workspaces import WorkspaceSeen, stage_of
from headrace.metrics.state import State
from headrace.metrics.watch_rules import Watch
from headrace.runtime.service import Runtime

LOOK_S = 1.0

_USES = msgspec.json.Decoder(Uses)
_PROGRESS = msgspec.json.Decoder(Progress)


class Watching:
    """What the leader sees of each workspace."""

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}
        self._of_device: dict[tuple[str, str], dict[str, None]] = {}  # the workspaces on it
        self._gateway_heard_us = 0
        self._subscriptions: list[Subscription] = []
        self._looking: asyncio.Task[None] | None = None

    async def lead(self, runtime: Runtime) -> None:
        """Start watching."""
        self._runtime = runtime
        for subject, hear in ((subjects.USES, self._used), (subjects.PROGRESS, self._reported)):
            self._subscriptions.append(await runtime.bus.listen(subject, hear))
        self._looking = asyncio.create_task(self._look_on())

    async def close(self) -> None:
        """Stop watching, and forget."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        for subscription in self._subscriptions:
            await subscription.stop()
        self._subscriptions.clear()
        self._watches.clear()
        self._of_device.clear()
        self._gateway_heard_us = 0

    def sampled(self, node: str, signal: Signal) -> None:
        """A node's agent says how busy its devices are."""
        for name, permille, _ in signal.samples:
            if permille is None:  # as if nothing had been heard of it: it counts as used
                continue
            device = (node, name)
            for job in self._of_device.get(device, ()):
                self._watches[job].sample(device, permille, self._runtime.now_us())

    def is_placed(self, node: str, said: Reported) -> bool:
        """Whether the log has this worker on the node."""
        state: State = self._runtime.state
        seen = state.jobs.get(said.job)
        if seen is None or (seen.attempt, seen.project) != (said.attempt, said.project):
            return False
        return seen.nodes.get(said.rank) == node

    async def look(self) -> None:
        """Look at every workspace, and put on record what there is to say."""
        state, now_us = self._runtime.state, self._runtime.now_us()
        self._keep_to(state, now_us)
        for seen in [*self._seen(state, now_us)]:
            await self._runtime.record(seen)

    def _seen(self, state: State, now_us: int) -> Iterator[WorkspaceSeen]:
        """What there is to say, of workspaces that are not as they were said to be."""
        for job, watch in self._watches.items():
            workspace = state.workspaces[job]
            watch.look(workspace, self._gateway_heard_us, now_us)
            seen = watch.seen(job, workspace, now_us)
            if stage_of(seen.unused_us, workspace.idle_us) != workspace.stage:
                yield seen

    def _keep_to(self, state: State, now_us: int) -> None:
        """Watch what runs, and forget what does not."""
        running = {job: at for job, at in state.workspaces.items() if at.attempt}
        self._watches = {
            job: self._watch_of(job, workspace.attempt, now_us)
            for job, workspace in running.items()
        }
        self._of_device = {}
        for job, workspace in running.items():
            for device in workspace.devices:
                self._of_device.setdefault(device, {})[job] = None

    def _watch_of(self, job: str, attempt: int, now_us: int) -> Watch:
        known = self._watches.get(job)
        if known is not None and known.attempt == attempt:
            return known
        return Watch(attempt=attempt, watched_us=now_us)

    async def _look_on(self) -> None:
        while True:
            if self._runtime.state.workspaces:
                await self.look()
            await asyncio.sleep(LOOK_S)

    def _used(self, message: Message) -> None:
        try:
            jobs = _USES.decode(message.data).jobs
        except msgspec.MsgspecError:
            return
        self._gateway_heard_us = self._runtime.now_us()
        for job in jobs:
            if job in self._watches:
                self._watches[job].use(self._gateway_heard_us)

    def _reported(self, message: Message) -> None:
        try:
            workers = _PROGRESS.decode(message.data).workers
        except msgspec.MsgspecError:
            return
        node = message.subject.split(".")[2]
        for said in workers:
            if not self.is_placed(node, said):
                continue
            watch = self._watches.get(said.job)
            if watch is not None and watch.attempt == said.attempt and watch.values != said.values:
                watch.values = said.values
                watch.use(self._runtime.now_us())
