"""The machine as it is: workers are processes under shims, started by the launcher.

Rule: what an attempt's folder and its shim say is the truth. The end of a shim (its pidfd becomes
readable) is the only sign of an end; `exit.json` then says which, and where it is missing the
attempt is lost, once it is proved that nothing of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import signal
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import msgspec

from headrace.bus.agents import Assignment, Launch, LogsChunk, LogsWanted
from headrace.bus.sessions import Enter
from headrace.node_agent import folders, logs, worker_reports
from headrace.node_agent.held import Held
from headrace.node_agent.isolation.cgroups import restore
from headrace.node_agent.launcher_link import LauncherLink
from headrace.node_agent.machine import AttemptKey, End, Inside, Seen, Way, Workplace
from headrace.node_agent.pausing.pausing import Pausing
from headrace.node_agent.pausing.record import wanted_of
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.session_programs import Program
from headrace.node_agent.start_spec import MachineSettings, spec_of
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.protocol import ATTEMPTS
from headrace.node_agent.supervision.record import journal
from headrace.telemetry.disk import used_permille

LOOK_S = 5.0  # a start nobody answered is looked at in its folder this often
SAID_S = 0.05  # for what a shim said before it ended without having written anything
CLEAN_EVERY_LOOKS = 12  # old folders are removed once a minute

_LOG = logging.getLogger("headrace.node_agent")


class ProcessMachine:
    """Starts, stops and watches this node's workers."""

    engine = ""  # images are somebody else's

    def __init__(self, settings: MachineSettings) -> None:
        self._settings = settings
        self._node_dir = settings.node_dir
        self._held: dict[AttemptKey, Held] = {}
        self._by_folder: dict[str, Held] = {}
        self._changed: Callable[[AttemptKey], None] = lambda _key: None
        self._link = LauncherLink(self._node_dir, said=self._said, connected=self._look_again)
        self._boot = kernel.boot_id()
        self._pausing = Pausing(settings.driver, settings.journal)
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, changed: Callable[[AttemptKey], None]) -> None:
        self._changed = changed
        attempts = self._node_dir / ATTEMPTS
        attempts.mkdir(parents=True, exist_ok=True)
        attempts.chmod(0o711)  # to pass through: each attempt is its account's
        for key, folder in folders.keys_in(self._node_dir):
            if folders.is_open(folder, folders.PROCESS):
                self._adopt(key, folder)
        self._link.open()
        self._spawn(self._tend())

    def held(self) -> Iterable[AttemptKey]:
        return list(self._held)

    def look(self, key: AttemptKey) -> Seen | None:
        if key in self._held:
            return self._held[key].seen
        try:
            folder = self._node_dir / folders.name_of(key)
        except ValueError:
            return None
        end = folders.read_exit(folder)
        return None if end is None else folders.seen_of(folders.read_intent(folder), end)

    def start(self, assignment: Assignment, launch: Launch, place: Workplace) -> None:
        key = key_of(assignment)
        if key in self._held:
            return
        seen = Seen(
            phase="starting",
            project=assignment.project,
            traceparent=assignment.traceparent,
            shares=assignment.shares,
            replace_after_s=assignment.replace_after_s,
        )
        marker = secrets.token_hex(16)
        try:
            restore(self._settings.isolation, self._settings.loopback)
            spec = spec_of(assignment, launch, place, settings=self._settings, marker=marker)
        except (ValueError, OSError) as error:
            held = self._held[key] = Held(key, self._node_dir, seen)
            self._finish(held, End(reason="start-failed", exit_code=126, message=str(error)))
            return
        how = {"enforcement": spec["enforcement"], "isolation": spec["confinement"]["level"]}
        seen = msgspec.structs.replace(seen, **how)
        held = Held(key, self._node_dir / spec["folder"], seen, spec=spec)
        self._held[key] = self._by_folder[spec["folder"]] = held
        self._link.start(spec)

    def bar(self, key: AttemptKey, end: End) -> bool:
        if key in self._held:
            return False
        try:
            folder = self._node_dir / folders.name_of(key)
        except ValueError:
            return True
        if folders.bar(folder):
            folders.write_lost(folder, end.message, 0, end.reason)
            return True
        self._adopt(key, folder)
        return False

    def stop(self, key: AttemptKey, reason: str, grace_s: int, signal: str = "") -> None:
        held = self._held.get(key)
        if held is not None and held.seen.end is None:
            held.stop = (reason, grace_s, signal)
            held.seen = msgspec.structs.replace(held.seen, stopping=True, grace_s=grace_s)
            has_devices = not held.seen.is_away or (grace_s > 0 and reason != "disconnected")
            then = functools.partial(self._pass_stop_on, held)
            self._pausing.before_stop(held.folder, may_return=has_devices, then=then)

    def move(self, assignment: Assignment) -> None:
        held = self._held.get(key_of(assignment))
        if held is not None and held.seen.phase == "running" and not held.seen.stopping:
            then = functools.partial(self._moved, held, assignment)
            self._pausing.ask(held.folder, wanted_of(assignment), then)

    def forget(self, key: AttemptKey) -> None:
        held = self._held.get(key)
        if held is not None and held.seen.end is not None:
            del self._held[key]

    def read_logs(self, wanted: LogsWanted) -> LogsChunk:
        held = self._held.get(AttemptKey(wanted.job, wanted.attempt, wanted.rank))
        has_ended = held is None or held.seen.end is not None
        return logs.of_attempt(self._node_dir, wanted, has_ended=has_ended)

    def inside(self, key: AttemptKey) -> Inside | None:
        return self._held[key].inside() if key in self._held else None

    async def program(self, key: AttemptKey, wanted: Enter) -> Way:
        return await Program.start(self.inside(key), wanted)

    def reported(self, key: AttemptKey) -> dict[str, str]:
        return worker_reports.values_of(self._held[key].folder) if key in self._held else {}

    def disk_permille(self) -> int:
        return used_permille(self._node_dir)

    async def close(self) -> None:
        await self._link.close()
        self._pausing.close()
        for task in self._tasks:
            task.cancel()
        for held in self._held.values():
            self._unwatch(held)

    def _moved(self, held: Held, assignment: Assignment) -> None:
        seen = msgspec.structs.replace(held.seen, shares=assignment.shares)
        held.seen = self._pausing.known(held.folder, seen)
        self._changed(held.key)

    def _adopt(self, key: AttemptKey, folder: Path) -> None:
        """Take over what an earlier agent started and nobody has seen the end of."""
        intent = folders.read_intent(folder)
        seen = self._pausing.known(folder, folders.seen_of(intent, None))
        held = self._held[key] = Held(key, folder, seen)
        self._by_folder[f"{ATTEMPTS}/{folder.name}"] = held
        _LOG.info("adopts job=%s attempt=%d rank=%d", *key)
        if intent is not None and intent.boot != self._boot:
            lost = folders.write_lost(folder, "the node was started anew", intent.at_us)
            self._finish(held, lost)
        else:
            self._look_at(held)

    def _look_again(self) -> None:
        """A launcher is connected: whatever has no shim yet is looked at, and sent if need be."""
        for held in list(self._held.values()):
            if held.seen.end is None and held.pidfd < 0:
                self._look_at(held)

    def _look_at(self, held: Held) -> None:
        """Find out from the folder how this attempt stands."""
        pid = folders.shim_of(held.folder)
        if pid:
            self._watch(held, pid)
            self._note_started(held)
            return
        end = folders.read_exit(held.folder)
        if end is not None:
            self._finish(held, end)
        elif held.spec is not None and folders.read_intent(held.folder) is None:
            self._link.start(held.spec)
        else:
            self._spawn(self._prove_lost(held))

    def _said(self, line: dict[str, Any]) -> None:
        """A line from the launcher or one of its shims."""
        folder = line.get("forked") or line.get("started") or line.get("refused")
        held = self._by_folder.get(str(folder))
        if held is None or held.seen.end is not None:
            return
        if "forked" in line:
            self._watch(held, int(line["pid"]))
        elif "started" in line:
            self._runs(held, int(line["at_us"]))
        else:
            message = f"cannot start: {line.get('why')}"
            self._finish(held, End(reason=line["reason"], exit_code=126, message=message))

    def _runs(self, held: Held, at_us: int) -> None:
        held.spec = None
        if held.seen.phase == "starting":
            held.seen = msgspec.structs.replace(held.seen, phase="running", started_at_us=at_us)
            self._changed(held.key)

    def _note_started(self, held: Held) -> None:
        intent = folders.read_intent(held.folder)
        if intent is not None and intent.at_us:
            self._runs(held, intent.at_us)

    def _watch(self, held: Held, pid: int) -> None:
        self._unwatch(held)
        try:
            held.pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._shim_ended(held)
            return
        asyncio.get_running_loop().add_reader(held.pidfd, self._shim_ended, held)
        if held.stop is not None:
            self._pass_stop_on(held)

    def _unwatch(self, held: Held) -> None:
        if held.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(held.pidfd)
            os.close(held.pidfd)
            held.pidfd = -1

    def _pass_stop_on(self, held: Held) -> None:
        if held.pidfd < 0 or held.stop is None:
            return  # passed on as soon as its shim is known
        try:
            folders.write_stop(held.folder, *held.stop)
        except OSError as error:
            _LOG.warning("stop reason not written job=%s error=%s", held.key.job, error.strerror)
        for number in (signal.SIGTERM, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(held.pidfd, number)

    def _shim_ended(self, held: Held) -> None:
        self._unwatch(held)
        end = folders.read_exit(held.folder)
        if end is not None:
            self._finish(held, end)
        elif pid := folders.shim_of(held.folder):
            self._watch(held, pid)  # what ended was a second one, which found this one here
        else:
            self._spawn(self._prove_lost(held, witnessed=True))

    async def _prove_lost(self, held: Held, *, witnessed: bool = False) -> None:
        """The shim was killed: end what it left, and say so only when nothing is left.

        Its workers' sessions are searched only if its end was just `witnessed`: later their
        numbers may be somebody else's.
        """
        intent = folders.read_intent(held.folder)
        message, started_at_us = "its supervisor was killed", 0
        if intent is None:
            await asyncio.sleep(SAID_S)
            if held.seen.end is None and not folders.bar(held.folder):
                self._look_at(held)  # a shim took it meanwhile
                return
        if intent is not None:
            sessions = intent.pids if witnessed else []
            killed = await asyncio.to_thread(tree.sweep, intent.marker, sessions, intent.groups)
            message = f"{message}; {killed} of its processes were left and ended"
            started_at_us = intent.at_us
            journal(self._settings.journal, "end", held.key, intent.devices)
        if held.seen.end is None:
            _LOG.warning("lost job=%s attempt=%d rank=%d", *held.key)
            self._finish(held, folders.write_lost(held.folder, message, started_at_us))

    def _finish(self, held: Held, end: End) -> None:
        self._unwatch(held)
        self._by_folder.pop(f"{ATTEMPTS}/{held.folder.name}", None)
        held.spec = None
        held.seen = msgspec.structs.replace(held.seen, phase="ended", end=end)
        self._changed(held.key)

    async def _tend(self) -> None:
        """Look after starts that nobody answered, and now and then remove old folders."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            for held in list(self._held.values()):
                if held.seen.phase == "starting" and held.pidfd >= 0:
                    self._note_started(held)
            looks += 1
            if looks % CLEAN_EVERY_LOOKS == 0:
                needed, kept = frozenset(self._held), self._settings.kept
                await asyncio.to_thread(folders.clean, self._node_dir, needed, kept)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
