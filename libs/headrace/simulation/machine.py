"""A machine of the simulated fleet: its processes, its boot, its disk, and what really ran on it.

Rule: it outlives the agent that looks at it. `journal` is written where a worker really starts and
ends, and nothing of Headrace ever reads it but the final check.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.bus.agents import Assignment, Launch
from headrace.simulation.administration import Hardware
from headrace.simulation.parts import AgentParts
from headrace.simulation.surroundings import EPOCH_US

START_S_MAX, STOP_S_MAX, PAUSE_S_MAX = 0.03, 0.2, 0.1
PAUSE_FAILS, RETURN_FAILS = 0.2, 0.5  # of all tries
PAUSING = ((), ("checkpoint",), *[("checkpoint", "migrate", "ipc")] * 4)  # found of drivers
TIMEOUT_EXIT_CODE = 124  # of what ran for as long as it may: as `timeout` has it
LAUNCHER_S = 0.5  # until a lost launcher is replaced: starts wait for it


class Worker(msgspec.Struct, kw_only=True):
    """A worker's folder and processes. `end` is what the agent's own type says of how it ended."""

    assignment: Assignment
    command: tuple[str, ...]
    phase: str = "starting"
    started_at_us: int = 0
    stopping: bool = False
    pause: Any = None
    is_away: bool = False  # it has left its devices
    left_s: float = 0.0  # of its run, while it is away
    reason: str = "exited"  # why it ends, if nobody else ends it
    code: int = 0
    end: Any = None
    timer: Any = None


class SimulatedMachine:
    """The hardware. `open` attempts to it are made by `SimulatedProcesses`, one per agent."""

    def __init__(
        self, node: str, hardware: Hardware, chance: random.Random, parts: AgentParts
    ) -> None:
        self.node = node
        self.chance = chance
        self.parts = parts
        self.devices = parts.devices(node, hardware)
        self.lease = parts.lease()
        self.boot = 1
        self.is_on = True
        self.workers: dict[Any, Worker] = {}
        self.journal: list[str] = []
        self.changed: Callable[[Any], None] | None = None
        self.pausing = chance.choice(PAUSING)
        self._launcher_back_s = 0.0

    @property
    def boot_id(self) -> str:
        """The kernel's boot id."""
        return f"{self.node}-boot-{self.boot}"

    def running(self) -> list[Any]:
        """The attempts whose processes exist right now."""
        return [key for key, worker in self.workers.items() if worker.phase == "running"]

    def used(self) -> list[str]:
        """The devices that running workers have."""
        return [s.device for key in self.running() for s in self.workers[key].assignment.shares]

    def leased_s(self) -> float:
        """The longest run among those that are to be replaced when this machine cannot be heard."""
        running = (self.workers[key] for key in self.running())
        leased = (worker for worker in running if worker.assignment.replace_after_s)
        return max((float(worker.command[1]) for worker in leased), default=0.0)

    def lose_launcher(self) -> None:
        """The launcher dies; workers run on, starts wait for the next one."""
        self._launcher_back_s = self._now_s() + LAUNCHER_S

    def power_off(self) -> None:
        """Everything that runs ends now. The disk stays."""
        self.is_on = False
        self.changed = None
        for key, worker in self.workers.items():
            self._cancel(worker)
            if worker.phase == "running":
                self._write("end", key, worker)
        self.workers.clear()

    def power_on(self) -> None:
        """Another boot."""
        self.boot += 1
        self.lease = self.parts.lease()
        self.is_on = True

    def start(self, assignment: Assignment, launch: Launch) -> None:
        """Start the worker, once in its life."""
        key = self.parts.key(assignment.job, assignment.attempt, assignment.rank)
        if key in self.workers or not self.is_on:
            return
        worker = Worker(assignment=assignment, command=launch.command)
        self.workers[key] = worker
        delay_s = self.chance.uniform(0.001, START_S_MAX)
        delay_s += max(0.0, self._launcher_back_s - self._now_s())
        worker.timer = self._later(delay_s, self._begin, key)

    def stop(self, key: Any, grace_s: int) -> None:
        """Ask the worker to end."""
        worker = self.workers.get(key)
        if worker is None or worker.stopping or worker.end is not None:
            return
        worker.stopping = True
        self._cancel(worker)
        delay_s = min(grace_s, self.chance.uniform(0.0, STOP_S_MAX))
        worker.timer = self._later(delay_s, self._finish, key, "stopped", 143)

    def move(self, assignment: Assignment) -> None:
        """Let the worker leave its devices, or come back to those of the assignment, or fail."""
        key = self.parts.key(assignment.job, assignment.attempt, assignment.rank)
        self._later(self.chance.uniform(0.001, PAUSE_S_MAX), self._moved, key, assignment)

    def _moved(self, key: Any, assignment: Assignment) -> None:
        worker = self.workers.get(key)
        if worker is None or worker.phase != "running" or worker.stopping:
            return
        if worker.pause and worker.pause.phase_at >= assignment.phase_at:
            return
        wanted, was_away = assignment.phase, worker.is_away
        fails = self.chance.random() < (RETURN_FAILS if wanted == "running" else PAUSE_FAILS)
        if wanted == "paused" and not fails:
            self._write("pause", key, worker)
            worker.left_s = max(0.001, worker.timer.when() - self._now_s())
            self._cancel(worker)
        elif wanted == "running" and was_away and not fails:
            worker.assignment = assignment
            self._write("resume", key, worker)
            worker.timer = self._later(worker.left_s, self._finish, key, worker.reason, worker.code)
        broken, phase_at = fails and wanted == "running", assignment.phase_at
        worker.pause = self.parts.paused(
            phase=wanted, phase_at=phase_at, failed="it could not" if fails else "", broken=broken
        )
        worker.is_away = was_away if fails else wanted == "paused"
        self._tell(key)

    def kill(self, key: Any) -> None:
        """The worker's supervisor dies, and the worker with it."""
        worker = self.workers[key]
        self._cancel(worker)
        self._finish(key, "lost", 137)

    def _begin(self, key: Any) -> None:
        worker = self.workers[key]
        worker.phase, worker.started_at_us = "running", self._now_us()
        self._write("start", key, worker)
        program, *arguments = worker.command
        assert program == "simulated"  # nothing else runs here
        ends_in_s, worker.code = float(arguments[0]), int(arguments[1])
        if 0 < (limit_s := worker.assignment.max_duration_s) < ends_in_s:
            ends_in_s, worker.reason, worker.code = limit_s, "stopped", TIMEOUT_EXIT_CODE
        self._end_in(ends_in_s, key)
        self._watch_lease(key)
        self._tell(key)

    def _end_in(self, delay_s: float, key: Any) -> None:
        worker = self.workers[key]
        worker.timer = self._later(delay_s, self._finish, key, worker.reason, worker.code)

    def _watch_lease(self, key: Any) -> None:
        """As a shim does: look when the lease should have ended, and end the worker if it has."""
        worker = self.workers.get(key)
        if worker is None or worker.end is not None or not worker.assignment.replace_after_s:
            return
        after_s = worker.assignment.replace_after_s
        if self.lease.covers(after_s):
            left_s = self.lease.from_ns / 1e9 + after_s - self._now_s()
            self._later(max(0.001, left_s), self._watch_lease, key)
        else:
            self.stop(key, 0)

    def _finish(self, key: Any, reason: str, code: int) -> None:
        worker = self.workers[key]
        if worker.phase == "running":
            self._write("end", key, worker)
        worker.phase = "ended"
        worker.end = self.parts.end(
            reason=reason,
            exit_code=code,
            started_at_us=worker.started_at_us,
            ended_at_us=self._now_us(),
            reported={"seconds": worker.command[1]},
        )
        self._tell(key)

    def _write(self, what: str, key: Any, worker: Worker) -> None:
        shares = ",".join(f"{s.device}:{s.milli}" for s in worker.assignment.shares) or "-"
        at_ns = self._now_us() * 1_000
        self.journal.append(f"{what} {key.job} {key.attempt} {key.rank} {at_ns} {shares}")

    def _tell(self, key: Any) -> None:
        if self.changed is not None:
            self.changed(key)

    def _later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> Any:
        return asyncio.get_running_loop().call_later(delay_s, call, *arguments)

    def _cancel(self, worker: Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _now_us(self) -> int:
        return EPOCH_US + int(self._now_s() * 1_000_000)
