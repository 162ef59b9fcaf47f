"""One attempt in a container, from its image to the proof that nothing of it is left.

Rule: every step may be cut off, by the agent's end or the engine's, and is taken again: the container
has a name of its own, so it is made once and started once, whoever asks how often.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headrace.node_agent import folders
from headrace.node_agent.containers import ending, record
from headrace.node_agent.containers.engine import Away, Denied, Engine, Gone, State
from headrace.node_agent.containers.image_links import ImageLinks
from headrace.node_agent.containers.images import CannotPull, Images
from headrace.node_agent.containers.isolation import foreign_user, users_of
from headrace.node_agent.containers.output import Carried, carry
from headrace.node_agent.folders import Exit, Intent
from headrace.node_agent.isolation.cgroups import is_below
from headrace.node_agent.machine import AttemptKey, Seen
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.processes import signal_of
from headrace.node_agent.supervision.protocol import STOP_REASON
from headrace.node_agent.supervision.record import journal
from headrace.node_agent.tasks import end_tasks, wait_until
from headrace.node_agent.worker_reports import values_of

AGAIN_S_FIRST, AGAIN_S_MAX = 0.1, 2.0  # before the engine is asked again
KILL_AGAIN_S = 1.0
SEEN_S_MAX = 1.0  # until its first process carries the attempt's mark
OUTPUT_S_MAX = 30.0  # for the rest of its output, once it has ended

MOUNTS_NOTHING = "{} is a link in it: nothing is mounted through an image's own links"
NOT_IN_GROUP = (
    "the engine did not put it into the group that keeps loopback ports apart: its control groups are"
    " not this agent's"
)

T = TypeVar("T")

_LOG = logging.getLogger("headrace.node_agent")


@dataclass
class Held:
    """An attempt that is starting or running, or has ended and is not forgotten. `config` makes
    what the engine is to create from the image's PATH; None: that is done, or was an earlier agent's
    work. `group` is the folder of the group that its own is promised to be in, or "".
    """

    key: AttemptKey
    folder: Path
    name: str
    seen: Seen
    intent: Intent
    kept: record.Kept
    config: Callable[[str], dict[str, Any]] | None = None
    group: str = ""
    stop: tuple[str, int, str] | None = None  # why, how soon, and by which signal of its own
    asked: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, kw_only=True)
class Means:
    """What attempts are run with. `changed` is told when one has come further."""

    engine: Engine
    images: Images
    links: ImageLinks
    live_restore: bool
    output_bytes_max: int
    journal: str
    changed: Callable[[AttemptKey], None]
    fence: Callable[[Held], Awaitable[None]]


class NeverStarted(Exception):
    """An earlier agent ended before it had made the container: it may be started yet."""


class Attempt:
    """The life of one attempt; `run` it as a task. Cancelled, it leaves the container running."""

    def __init__(self, means: Means, held: Held) -> None:
        self._means, self._engine, self._held = means, means.engine, held
        self._output = Carried(held.folder, means.output_bytes_max)
        self._is_adopted = held.config is None
        self._timed_out = False
        self._was_asked = False  # to end, while it ran
        self._engine_ended = False

    async def run(self) -> None:
        """Returns when it has ended and its container is gone. Raises `NeverStarted`."""
        held = self._held
        try:
            exit_ = await self._live()
            await record.ending(held.folder, exit_)
            await self._clear()
        finally:
            self._output.close()
        record.ended(held.folder)
        if held.seen.started_at_us:
            journal(self._means.journal, "end", held.key, held.intent.devices)
        held.seen = msgspec.structs.replace(
            held.seen, phase="ended", end=exit_.end(values_of(held.folder))
        )
        self._means.changed(held.key)

    async def _live(self) -> Exit:
        held = self._held
        try:
            make, held.config = held.config, None  # it knows what is secret
            if make is not None and (failed := await self._create(make)):
                return failed
            if failed := await self._start():
                return failed
            state = await self._until_ended()
        except Gone:
            return self._gone()
        said = record.beginning(held.folder) if held.kept.init else b""
        if why := ending.not_executed(state, said):
            return ending.not_started(held.kept.image, why)
        by_request = (
            self._was_asked or state.exit_code != 0
        )  # what ended well before is its own end
        asked = ending.Asked(
            stop=held.stop[0] if held.stop is not None and by_request else "",
            timed_out=self._timed_out and by_request,
            setup_failed=record.setup_has_failed(held.folder),
            setup_said=record.last_said(held.folder),
            engine_ended=self._engine_ended and not self._means.live_restore,
            memory_bytes=held.kept.memory_bytes,
        )
        at_us = held.seen.started_at_us
        return ending.exit_of(state, asked, started_at_us=at_us, now_us=kernel.now_us())

    def _gone(self) -> Exit:
        """There is no container: it never was, or it is known how it ended, or somebody took it."""
        held = self._held
        known = folders.read_ending(held.folder)
        if known is not None:
            return known
        if self._is_adopted and not held.intent.at_us and held.stop is None:
            raise NeverStarted
        message = "its container was removed"
        at_us = held.seen.started_at_us
        return Exit(
            reason="lost", message=message, started_at_us=at_us, ended_at_us=kernel.now_us()
        )

    async def _create(self, make: Callable[[str], dict[str, Any]]) -> Exit | None:
        """Have the image, then the container; how that failed."""
        held = self._held
        pulling = asyncio.create_task(self._insist(self._have_image))
        asked = asyncio.create_task(held.asked.wait())
        try:
            await asyncio.wait([pulling, asked], return_when=asyncio.FIRST_COMPLETED)
            if held.stop is not None:
                return _stopped_early(held.stop[0])
            config = make(await pulling)
            await self._insist(lambda: self._engine.create(held.name, config))
        except CannotPull as error:
            return Exit(reason="start-failed", exit_code=ending.NOT_EXECUTABLE, message=str(error))
        except Denied as error:
            return ending.not_started(held.kept.image, str(error))
        finally:
            await end_tasks([pulling, asked])
        return None

    async def _have_image(self) -> str:
        """Its PATH, once it is here."""
        image = self._held.kept.image
        await self._means.images.have(image, self._output.say)
        return await self._engine.path_of(image)

    async def _start(self) -> Exit | None:
        """Start what was made, once; why it cannot be."""
        held = self._held
        state = await self._insist(lambda: self._engine.state(held.name))
        while not state.started:
            if held.stop is not None:
                return _stopped_early(held.stop[0])
            try:
                if link := await self._insist(lambda: self._means.links.first(held.name)):
                    return ending.not_started(held.kept.image, MOUNTS_NOTHING.format(link))
                await self._means.fence(held)
                await self._engine.start(held.name)
            except Away:
                await asyncio.sleep(AGAIN_S_FIRST)  # it may have been started all the same
            except (Denied, OSError) as error:
                return ending.not_started(held.kept.image, str(error))
            state = await self._insist(lambda: self._engine.state(held.name))
        if held.group and state.pid and not is_below(held.group, state.pid):
            return ending.not_started(held.kept.image, NOT_IN_GROUP)
        if not held.intent.at_us:
            if strangers := await self._strangers(state.pid):
                return ending.not_started(held.kept.image, strangers)
            self._runs(state)
        return None

    async def _strangers(self, pid: int) -> str:
        """That it runs as somebody else than it should; empty where it does not, or this agent does not see
        the engine's processes.
        """
        held, until_s = self._held, time.monotonic() + SEEN_S_MAX
        while held.kept.user >= 0 and (users := users_of(pid)) and time.monotonic() < until_s:
            if tree.is_marked(pid, held.intent.marker):  # it is the job's, no runtime's any more
                return foreign_user(users, held.kept.user)
            await asyncio.sleep(AGAIN_S_FIRST / 10)
        return ""

    def _runs(self, state: State) -> None:
        held, at_us = self._held, kernel.now_us()
        if limit_s := held.kept.max_duration_s:
            limit_s -= held.kept.warned_s
            deadline_ns = kernel.boottime_ns() + limit_s * 1_000_000_000
            held.kept = msgspec.structs.replace(held.kept, deadline_ns=deadline_ns)
            with contextlib.suppress(OSError):
                record.keep(held.folder, held.kept)
        record.started(held.folder, at_us, state.pid)
        journal(self._means.journal, "start", held.key, held.intent.devices)
        held.intent.at_us, held.intent.pids = at_us, [state.pid] if state.pid else []
        held.seen = msgspec.structs.replace(held.seen, phase="running", started_at_us=at_us)
        self._means.changed(held.key)

    async def _until_ended(self) -> State:
        """Wait for its end, and see to it when it is due; then have the rest of its output."""
        name = self._held.name
        carrying = asyncio.create_task(carry(self._engine, name, self._output))
        ending_it = asyncio.create_task(self._end_when_due())
        try:
            while True:
                try:
                    await self._engine.ended(name)
                    state = await self._engine.state(name)
                except Away:
                    self._engine_ended = True  # while it was asked
                    state = await self._insist(lambda: self._engine.state(name))
                if not state.running:
                    break
                self._engine_ended = False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OUTPUT_S_MAX):
                    await asyncio.shield(carrying)
            return state
        finally:
            await end_tasks([carrying, ending_it])

    async def _end_when_due(self) -> None:
        """When it is asked to end or its time is over: ask it, then make it, until it has ended."""
        held = self._held
        while held.stop is None and not self._timed_out:
            left_s = 3_600.0
            if held.kept.deadline_ns:
                left_s = max(0.0, (held.kept.deadline_ns - kernel.boottime_ns()) / 1e9)
            await wait_until(held.asked, left_s)
            self._timed_out = held.stop is None and left_s == 0.0
        reason = held.stop[0] if held.stop is not None else "timeout"
        state = await self._insist(lambda: self._engine.state(held.name))
        if not state.running:
            return  # it came to its own end: its output is still on the way
        self._was_asked = True
        with contextlib.suppress(OSError):
            kernel.write(str(held.folder / STOP_REASON), reason.encode())
        await self._ask_to_end()
        since_s = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < since_s + self._grace_s():
            held.asked.clear()
            left_s = since_s + self._grace_s() - asyncio.get_running_loop().time()
            await wait_until(held.asked, max(0.0, left_s))
        while True:
            with contextlib.suppress(Away, Denied):
                await self._engine.signal(held.name, "SIGKILL")
            await asyncio.sleep(KILL_AGAIN_S)

    def _grace_s(self) -> int:
        if self._held.stop is not None:
            return self._held.stop[1]
        return self._held.kept.warned_s or self._held.kept.grace_s

    async def _ask_to_end(self) -> None:
        """Every process of it, as beside a container; its first one only where that is the job's."""
        held = self._held
        marked = await asyncio.to_thread(tree.of_attempt, held.intent.marker, [], [])
        firsts = held.intent.pids if held.kept.init else []
        pids = [pid for pid in marked if pid not in firsts]
        name = held.stop[2] if held.stop is not None else held.kept.checkpoint_signal
        by = signal_of(name)
        (tree.ask if name else tree.send)(pids, by)
        tree.send(pids, signal.SIGCONT)
        if not pids:  # the engine's processes are not seen from here
            with contextlib.suppress(Denied):
                await self._insist(lambda: self._engine.signal(held.name, signal.Signals(by).name))

    async def _clear(self) -> None:
        """Remove the container, however long that takes."""
        while True:
            try:
                await self._insist(lambda: self._engine.remove(self._held.name))
            except Denied as error:
                _LOG.warning("container not removed name=%s error=%s", self._held.name, error)
                await asyncio.sleep(AGAIN_S_MAX)
            else:
                return

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until somebody answers."""
        pause_s = AGAIN_S_FIRST
        while True:
            try:
                return await ask()
            except Away:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, AGAIN_S_MAX)


def _stopped_early(reason: str) -> Exit:
    return Exit(reason="stopped", message=f"stopped before it started: {reason}")
