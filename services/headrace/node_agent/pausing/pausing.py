"""The pauses of a node's attempts: one thing at a time to each, away from the agent's loop.

Rule: what an attempt is asked is done after what it was asked before; the record in its folder says
what came of it, and is all that an agent after this one needs.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.node_agent import folders
from headrace.node_agent.machine import Paused, Seen
from headrace.node_agent.pausing import LOCKED, RUNNING, Driver, DriverError
from headrace.node_agent.pausing.ladder import PAUSED
from headrace.node_agent.pausing.moving import move
from headrace.node_agent.pausing.record import Record, read, write
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.record import journal


class Pausing:
    """Takes attempts off their devices and back. `changed` is called for an attempt that has come to a new phase, or could not. `journal` is a file outside Headrace that is told what
    really happened, or "".
    """

    def __init__(self, driver: Driver, journal: str = "") -> None:
        self._driver, self._journal = driver, journal
        self._asked: dict[Path, Record] = {}  # what is being done
        self._tasks: dict[Path, asyncio.Task[None]] = {}

    def known(self, folder: Path, seen: Seen) -> Seen:
        """With what came of the last wish; nothing while it is not done."""
        record = read(folder)
        if record is None or not record.done:
            return msgspec.structs.replace(seen, pause=None)
        pause = Paused(
            phase=record.phase,
            phase_at=record.phase_at,
            failed=record.failed,
            broken=record.broken,
            gpu_bytes=record.gpu_bytes,
            took_us=record.took_us,
        )
        return msgspec.structs.replace(seen, pause=pause)

    def ask(self, folder: Path, wanted: Record, changed: Callable[[], None]) -> None:
        """Take the attempt to this phase, once."""
        asked = self._asked.get(folder)
        if asked is None or asked.phase_at != wanted.phase_at:
            self._asked[folder] = wanted
            self._then(folder, functools.partial(self._carry_out, folder, wanted), changed)

    def before_stop(self, folder: Path, *, may_return: bool, then: Callable[[], None]) -> None:
        """The attempt is to end: bring it back first, so that it can save what it has, if it
        `may_return` to its devices; at once when there is nothing to bring back.
        """
        if folder not in self._tasks and (not may_return or not _is_away(folder)):
            then()
            return
        back = functools.partial(_bring_back, self._driver, folder) if may_return else None
        self._then(folder, back, then)

    def close(self) -> None:
        """Leave; what is being done in a thread comes to its own end."""
        for task in self._tasks.values():
            task.cancel()
        self._driver.close()

    def _carry_out(self, folder: Path, wanted: Record) -> None:
        """Write down what is wanted, do it, write down what came of it."""
        before = read(folder)
        if before is not None and before.done and before.phase_at >= wanted.phase_at:
            return
        doing = _begun(before, wanted)
        if doing.since_ns and wanted.phase == RUNNING:
            _note(self._journal, "resume", folder, wanted.devices)
        begun_ns = time.monotonic_ns()
        try:
            write(folder, doing)
            way = move(
                self._driver, _pids(folder), wanted.phase, _mapped(doing.devices, wanted.devices)
            )
            done = msgspec.structs.replace(
                doing,
                done=True,
                failed=way.failed,
                broken=way.is_broken,
                gpu_bytes=self._used_bytes(folder) if way.wanted == LOCKED else 0,
                took_us=(time.monotonic_ns() - begun_ns) // 1_000,
            )
            if way.wanted == PAUSED:
                _note(self._journal, "pause", folder, doing.devices)
            write(folder, _rested(done, way.wanted, wanted.devices))
        except (OSError, DriverError) as error:
            move(self._driver, _pids(folder), RUNNING, {})
            _try_write(folder, msgspec.structs.replace(doing, done=True, failed=str(error)))

    def _used_bytes(self, folder: Path) -> int:
        return sum(self._driver.memory_bytes(pid) for pid in _pids(folder)())

    def _then(self, folder: Path, do: Callable[[], None] | None, after: Callable[[], None]) -> None:
        before = self._tasks.get(folder)

        async def doing() -> None:
            if before is not None:
                await asyncio.wait([before])
            if do is not None:
                await asyncio.to_thread(do)
            if self._tasks.get(folder) is asyncio.current_task():
                del self._tasks[folder]
                self._asked.pop(folder, None)
            after()

        self._tasks[folder] = asyncio.get_running_loop().create_task(doing())


def _bring_back(driver: Driver, folder: Path) -> None:
    move(driver, _pids(folder), RUNNING, {})


def _rested(done: Record, reached: str, devices: tuple[str, ...]) -> Record:
    """With the times, and the devices that it is on now."""
    now_ns = kernel.boottime_ns()
    if reached == PAUSED:
        return msgspec.structs.replace(done, since_ns=done.since_ns or now_ns)
    rested_ns = done.rested_ns + (now_ns - done.since_ns if done.since_ns else 0)
    return msgspec.structs.replace(
        done,
        devices=devices if reached == RUNNING and not done.failed else done.devices,
        since_ns=0,
        rested_ns=rested_ns,
    )


def _begun(before: Record | None, wanted: Record) -> Record:
    """What is wanted, with what an earlier pause left."""
    if before is None:
        return wanted
    return msgspec.structs.replace(
        wanted, devices=before.devices, since_ns=before.since_ns, rested_ns=before.rested_ns
    )


def _note(journal_path: str, what: str, folder: Path, devices: tuple[str, ...]) -> None:
    intent = folders.read_intent(folder)
    if intent is not None:
        milli = intent.shares[0].milli if intent.shares else 0
        identity = (intent.job, intent.attempt, intent.rank)
        journal(journal_path, what, identity, [f"{device}:{milli}" for device in devices])


def _mapped(had: tuple[str, ...], has: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(had, has, strict=False)) if len(had) == len(has) else {}


def _pids(folder: Path) -> Callable[[], list[int]]:
    """The attempt's living processes without its shim."""

    def pids() -> list[int]:
        shim = folders.shim_of(folder)
        return sorted(tree.descendants(shim)) if shim else []

    return pids


def _is_away(folder: Path) -> bool:
    record = read(folder)
    return record is not None and (not record.done or record.phase != RUNNING)


def _try_write(folder: Path, record: Record) -> None:
    try:
        write(folder, record)
    except OSError:
        return  # asked again, it is done again
