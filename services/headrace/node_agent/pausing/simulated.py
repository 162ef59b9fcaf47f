"""A driver for GPUs that are not there: it notes how each process stands, and fails where told to.

Rule: what it notes outlives the agent, as what a real driver does; a process that has ended, or
another one of its number, is in no state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path

from headrace.node_agent.pausing import (
    CHECKPOINT,
    CHECKPOINTED,
    FAILED,
    IPC,
    LOCKED,
    MIGRATE,
    RUNNING,
    DriverError,
)
from headrace.node_agent.supervision import kernel

FOLDER = "simulated-driver"  # in the node's: one file per process that is not running


class SimulatedDriver:
    """Notes in `node_dir`. It refuses the steps named in `fails` ("checkpoint"), and gives up the
    processes of those in `breaks`.
    """

    def __init__(
        self,
        node_dir: Path,
        *,
        can: tuple[str, ...] = (CHECKPOINT, MIGRATE, IPC),
        fails: Collection[str] = (),
        breaks: Collection[str] = (),
    ) -> None:
        self._folder, self._can = node_dir / FOLDER, can
        self.fails, self.breaks = fails, breaks

    def probe(self) -> tuple[str, ...]:
        return self._can

    def state(self, pid: int) -> str | None:
        started = kernel.start_time(pid)
        if not started:
            return None
        try:
            noted, _, of = kernel.read(str(self._folder / str(pid)), 64).decode().partition(" ")
        except OSError:
            return RUNNING
        return noted if of == str(started) else RUNNING

    def lock(self, pid: int) -> None:
        self._step("lock", pid, RUNNING, LOCKED)

    def checkpoint(self, pid: int) -> None:
        self._step("checkpoint", pid, LOCKED, CHECKPOINTED)

    def restore(self, pid: int, devices: Mapping[str, str]) -> None:
        if MIGRATE not in self._can and any(old != new for old, new in devices.items()):
            raise DriverError(f"restore {pid}: it cannot go to other GPUs")
        self._step("restore", pid, CHECKPOINTED, LOCKED)

    def unlock(self, pid: int) -> None:
        self._step("unlock", pid, LOCKED, RUNNING)

    def memory_bytes(self, pid: int) -> int:
        del pid
        return 0

    def close(self) -> None:
        pass

    def _step(self, what: str, pid: int, before: str, after: str) -> None:
        if what in self.breaks:
            self._note(pid, FAILED)
            raise DriverError(f"{what} {pid}: the process is broken")
        found = self.state(pid)
        if found is None:
            return  # it has gone, and holds nothing
        if what in self.fails or found != before:
            raise DriverError(f"{what} {pid}: refused, it is {found}")
        self._note(pid, after)

    def _note(self, pid: int, state: str) -> None:
        note = self._folder / str(pid)
        if state == RUNNING:
            with contextlib.suppress(FileNotFoundError):
                note.unlink()
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        note.write_text(f"{state} {kernel.start_time(pid)}")
