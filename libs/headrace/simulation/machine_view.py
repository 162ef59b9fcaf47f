"""What one agent sees of a simulated machine, until the agent dies.

Rule: it is the agent's own `Machine`; what happens is the machine's, which outlives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.bus.agents import Assignment, Launch, LogsChunk, LogsWanted
from headrace.simulation.machine import SimulatedMachine


class SimulatedProcesses:
    """What one agent sees of a machine: the agent's own `Machine`, until the agent dies."""

    engine = ""  # no containers are simulated

    def __init__(self, machine: SimulatedMachine, passing: Callable[[str], None]) -> None:
        self._machine = machine
        self._passing = passing
        self._crashed = False

    def cut(self) -> None:
        """The agent was killed: it sees and does nothing any more."""
        self._crashed = True
        self._machine.changed = None

    async def open(self, changed: Callable[[Any], None]) -> None:
        """See the agent's `Machine`."""
        if not self._crashed:
            self._machine.changed = changed

    def held(self) -> Iterable[Any]:
        """See the agent's `Machine`."""
        return list(self._machine.workers)

    def look(self, key: Any) -> Any:
        """See the agent's `Machine`."""
        worker = self._machine.workers.get(key)
        if worker is None:
            return None
        return self._machine.parts.seen(
            phase=worker.phase,
            project=worker.assignment.project,
            traceparent=worker.assignment.traceparent,
            enforcement="none",
            shares=worker.assignment.shares,
            started_at_us=worker.started_at_us,
            replace_after_s=worker.assignment.replace_after_s,
            stopping=worker.stopping,
            pause=worker.pause,
            end=worker.end,
        )

    def start(self, assignment: Assignment, launch: Launch, place: object) -> None:
        """See the agent's `Machine`."""
        del place
        if not self._crashed:
            self._passing("agent.before_start")
            self._machine.start(assignment, launch)
            self._passing("agent.after_start")

    def bar(self, key: Any, end: object) -> bool:
        """See the agent's `Machine`: what is simulated starts in the call that asks for it."""
        del key, end
        return True

    def stop(self, key: Any, reason: str, grace_s: int, signal: str = "") -> None:
        """See the agent's `Machine`."""
        del reason, signal
        if not self._crashed:
            self._machine.stop(key, grace_s)

    def move(self, assignment: Assignment) -> None:
        """See the agent's `Machine`."""
        if not self._crashed:
            self._machine.move(assignment)

    def forget(self, key: Any) -> None:
        """See the agent's `Machine`."""
        if not self._crashed:
            self._machine.workers.pop(key, None)

    def read_logs(self, wanted: LogsWanted) -> LogsChunk:
        """See the agent's `Machine`."""
        return LogsChunk(offset=wanted.offset, ended=True, missing="simulated workers say nothing")

    def inside(self, key: Any) -> None:
        """See the agent's `Machine`: nobody can enter what is simulated."""
        del key

    def reported(self, key: Any) -> dict[str, str]:
        """See the agent's `Machine`: what is simulated says nothing."""
        del key
        return {}

    def disk_permille(self) -> int:
        """See the agent's `Machine`."""
        return 0

    async def close(self) -> None:
        """See the agent's `Machine`."""
        self.cut()
