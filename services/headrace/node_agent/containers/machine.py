"""The machine as a container engine has it: one container for each worker that has an image.

Rule: what runs is found by its labels, what it means in its folder; one without the other is not
kept. Nothing is taken up from before, and nothing started, until the engine has answered once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from headrace.bus.agents import Assignment, Launch, LogsChunk, LogsWanted
from headrace.bus.sessions import Enter
from headrace.node_agent import folders, logs, worker_reports
from headrace.node_agent.containers import plan, record
from headrace.node_agent.containers.attempt import Attempt, Held, Means, NeverStarted
from headrace.node_agent.containers.engine import Away, Denied, Engine
from headrace.node_agent.containers.facts import Facts
from headrace.node_agent.containers.fencing import raise_fence
from headrace.node_agent.containers.image_links import ImageLinks
from headrace.node_agent.containers.images import Images
from headrace.node_agent.containers.program import ContainerProgram
from headrace.node_agent.containers.starting import meant, prepare
from headrace.node_agent.machine import AttemptKey, End, Inside, Paused, Seen, Way, Workplace
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.start_spec import MachineSettings
from headrace.node_agent.supervision.beneath import remove
from headrace.node_agent.supervision.protocol import ATTEMPTS
from headrace.node_agent.tasks import end_tasks, wait_until

LOOK_S = 5.0  # between two looks whether the engine is there
CLEAN_EVERY_LOOKS = 12  # leftovers and old folders are removed once a minute
ENGINE_S_MAX = 60.0  # a worker waits this long for an engine that has gone

_LOG = logging.getLogger("headrace.node_agent")


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Where the engine is (`unix:///path`), and what the images on it may take; `logins` are those
    of registries.
    """

    address: str
    images_bytes_max: int
    logins: dict[str, dict[str, str]]


class ContainerMachine:
    """Starts, stops and watches this node's workers in containers."""

    def __init__(self, settings: MachineSettings, engine: EngineSettings) -> None:
        self._settings, self._engine_settings = settings, engine
        self._node_dir = settings.node_dir
        self._held: dict[AttemptKey, Held] = {}
        self._changed: Callable[[AttemptKey], None] = lambda _key: None
        self._tasks: set[asyncio.Task[None]] = set()
        self._facts: Facts | None = None  # as it was when it answered last
        self._answered = asyncio.Event()
        self._trouble = ""  # why no engine is used
        self._ended = 0

    @property
    def engine(self) -> str:
        """The engine that answers now, for people; empty when none does."""
        is_there = self._facts is not None and self._answered.is_set()
        return self._facts.title if self._facts is not None and is_there else ""

    async def open(self, changed: Callable[[AttemptKey], None]) -> None:
        self._changed = changed
        self._engine = Engine(self._engine_settings.address)
        self._images = Images(
            self._engine,
            self._node_dir,
            bytes_max=self._engine_settings.images_bytes_max,
            logins=self._engine_settings.logins,
        )
        self._links = ImageLinks(self._engine, plan.labels_of_node(self._node_dir))
        (self._node_dir / ATTEMPTS).mkdir(mode=0o700, parents=True, exist_ok=True)
        for key, folder in folders.keys_in(self._node_dir):
            if folders.is_open(folder, folders.DOCKER):
                self._adopt(key, folder)
        await self._look()
        self._spawn(self._tend())

    def held(self) -> Iterable[AttemptKey]:
        return list(self._held)

    def look(self, key: AttemptKey) -> Seen | None:
        held = self._held.get(key)
        return held.seen if held is not None else None

    def start(self, assignment: Assignment, launch: Launch, place: Workplace) -> None:
        key = key_of(assignment)
        if key in self._held:
            return
        held = self._held[key] = meant(key, assignment, self._node_dir)
        self._spawn(self._begin(held, assignment, launch, place))

    def stop(self, key: AttemptKey, reason: str, grace_s: int, signal: str = "") -> None:
        held = self._held.get(key)
        if held is not None and held.seen.end is None:
            held.stop = (reason, grace_s, signal)
            held.seen = msgspec.structs.replace(held.seen, stopping=True, grace_s=grace_s)
            held.asked.set()

    def move(self, assignment: Assignment) -> None:
        """It cannot: what a driver would have to know of its processes is the engine's."""
        key = key_of(assignment)
        held = self._held.get(key)
        if held is not None and held.seen.end is None:
            phase, phase_at = assignment.phase, assignment.phase_at
            pause = Paused(phase=phase, phase_at=phase_at, failed="it runs in a container")
            held.seen = msgspec.structs.replace(held.seen, pause=pause)
            self._changed(key)

    def forget(self, key: AttemptKey) -> None:
        held = self._held.get(key)
        if held is not None and held.seen.end is not None:
            del self._held[key]

    def read_logs(self, wanted: LogsWanted) -> LogsChunk:
        held = self._held.get(AttemptKey(wanted.job, wanted.attempt, wanted.rank))
        has_ended = held is None or held.seen.end is not None
        return logs.of_attempt(self._node_dir, wanted, has_ended=has_ended)

    def inside(self, key: AttemptKey) -> Inside | None:
        held = self._held.get(key)
        if held is None or held.seen.phase != "running":
            return None
        return Inside(held.folder, -1, held.intent.marker, held.intent.pids, [])

    def reported(self, key: AttemptKey) -> dict[str, str]:
        held = self._held.get(key)
        return worker_reports.values_of(held.folder) if held is not None else {}

    async def program(self, key: AttemptKey, wanted: Enter) -> Way:
        held = self._held[key]
        try:
            return await ContainerProgram.start(self._engine, held.name, held.intent.marker, wanted)
        except (Away, Denied) as error:
            raise OSError(f"the container engine does not let anybody in: {error}") from None

    async def close(self) -> None:
        """Leave. Containers run on."""
        await end_tasks(list(self._tasks))
        await self._engine.close()

    async def _begin(
        self, held: Held, assignment: Assignment, launch: Launch, place: Workplace
    ) -> None:
        """Plan it and write down what is meant, then live it."""
        await wait_until(self._answered, ENGINE_S_MAX)
        try:
            if self._facts is None or not self._answered.is_set():
                why = f": {self._trouble}" if self._trouble else ""
                raise OSError(f"no container engine runs jobs on this node{why}")  # noqa: TRY301
            address = self._engine_settings.address
            prepare(held, assignment, launch, place, on=(self._settings, self._facts, address))
        except (ValueError, OSError) as error:
            message = f"cannot start: {error}"
            self._finish(held, End(reason="start-failed", exit_code=126, message=message))
            return
        await self._live(held)

    async def _live(self, held: Held) -> None:
        await self._answered.wait()
        assert self._facts is not None  # it has answered
        means = Means(
            engine=self._engine,
            images=self._images,
            links=self._links,
            live_restore=self._facts.live_restore,
            output_bytes_max=self._settings.output_bytes_max,
            journal=self._settings.journal,
            changed=self._changed,
            fence=_fence,
        )
        try:
            await (await self._attempt(means, held)).run()
            self._ended += 1
        except NeverStarted:
            remove(held.folder)
            del self._held[held.key]
            self._changed(held.key)

    async def _attempt(self, means: Means, held: Held) -> Attempt:
        """With its output open: what is full now will be emptied."""
        while True:
            try:
                return Attempt(means, held)
            except OSError as error:
                _LOG.error("output not written job=%s error=%s", held.key.job, error.strerror)
                await asyncio.sleep(LOOK_S)

    def _adopt(self, key: AttemptKey, folder: Path) -> None:
        """Take over what an earlier agent started and nobody has seen the end of."""
        intent = folders.read_intent(folder)
        assert intent is not None  # it says who runs this
        _LOG.info("adopts container job=%s attempt=%d rank=%d", *key)
        name, kept = plan.name_of(self._node_dir, key), record.kept_in(folder)
        self._held[key] = Held(key, folder, name, folders.seen_of(intent, None), intent, kept)
        self._spawn(self._live(self._held[key]))

    def _finish(self, held: Held, end: End) -> None:
        held.seen = msgspec.structs.replace(held.seen, phase="ended", end=end)
        self._changed(held.key)

    async def _tend(self) -> None:
        """See whether the engine is there; now and then remove what is left over."""
        looks = 0
        while True:
            if looks % CLEAN_EVERY_LOOKS == 0 and self._answered.is_set():
                await self._remove_leftovers()
            if looks % CLEAN_EVERY_LOOKS == 0 and self._ended:
                self._ended = 0
                needed, kept = frozenset(self._held), self._settings.kept
                await asyncio.to_thread(folders.clean, self._node_dir, needed, kept)
            await asyncio.sleep(LOOK_S)
            await self._look()
            looks = looks + 1 if self._answered.is_set() else 0

    async def _look(self) -> None:
        try:
            facts = await self._engine.facts()
            if facts.lack:
                raise Denied(facts.lack)  # noqa: TRY301
        except (Away, Denied) as error:
            if self._answered.is_set() or str(error) != self._trouble:
                _LOG.error("no container engine is used error=%s", error)
            self._trouble = str(error)
            self._answered.clear()
            return
        if not self._answered.is_set():
            _LOG.info("container engine %s init=%s", facts.title, facts.init)
        self._facts = facts
        self._answered.set()

    async def _remove_leftovers(self) -> None:
        """What carries this node's label and is nobody's: its attempt has ended or has no folder."""
        with contextlib.suppress(Away, Denied):
            for found in await self._engine.found(plan.label_of(self._node_dir)):
                key = plan.key_in(found.labels)
                if key is None or key not in self._held:
                    _LOG.warning("removes a container of nobody's labels=%s", found.labels)
                    await self._engine.remove(found.container)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _fence(held: Held) -> None:
    await asyncio.to_thread(raise_fence, held.folder, held.intent, held.kept.grace_s)
