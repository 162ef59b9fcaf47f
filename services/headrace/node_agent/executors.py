"""Who runs which worker: beside each other, each with attempts of its own.

Rule: a worker with an image is run by the container engine, any other by the launcher. Whoever started
an attempt has it until it is forgotten; what has ended says so in its folder, whoever ran it. Another
executor is another `Machine` here, and a rule in `_for`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from headrace.bus.agents import Assignment, Launch, LogsChunk, LogsWanted
from headrace.bus.sessions import Enter
from headrace.node_agent.containers.images import logins_in
from headrace.node_agent.containers.machine import ContainerMachine, EngineSettings
from headrace.node_agent.machine import AttemptKey, End, Inside, Seen, Way, Workplace
from headrace.node_agent.process_machine import ProcessMachine
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.start_spec import MachineSettings


def executors(settings: MachineSettings, engine: str, *, images_bytes_max: int) -> Executors:
    """Those of a node whose container engine is at that address."""
    config = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "config.json"
    given = EngineSettings(
        address=engine, images_bytes_max=images_bytes_max, logins=logins_in(config)
    )
    return Executors(ProcessMachine(settings), ContainerMachine(settings, given))


class Executors:
    """The machine of a node that has a container engine."""

    def __init__(self, processes: ProcessMachine, containers: ContainerMachine) -> None:
        self._processes, self._containers = processes, containers
        self._all = (containers, processes)  # processes last: they answer for what has ended

    @property
    def engine(self) -> str:
        return self._containers.engine

    async def open(self, changed: Callable[[AttemptKey], None]) -> None:
        for machine in self._all:
            await machine.open(changed)

    def held(self) -> Iterable[AttemptKey]:
        return [key for machine in self._all for key in machine.held()]

    def look(self, key: AttemptKey) -> Seen | None:
        return self._of(key).look(key)

    def start(self, assignment: Assignment, launch: Launch, place: Workplace) -> None:
        self._for(launch).start(assignment, launch, place)

    def bar(self, key: AttemptKey, end: End) -> bool:
        return self._processes.bar(key, end)  # nobody but the agent starts a container

    def stop(self, key: AttemptKey, reason: str, grace_s: int, signal: str = "") -> None:
        self._of(key).stop(key, reason, grace_s, signal)

    def move(self, assignment: Assignment) -> None:
        self._of(key_of(assignment)).move(assignment)

    def forget(self, key: AttemptKey) -> None:
        self._of(key).forget(key)

    def read_logs(self, wanted: LogsWanted) -> LogsChunk:
        return self._of(AttemptKey(wanted.job, wanted.attempt, wanted.rank)).read_logs(wanted)

    def inside(self, key: AttemptKey) -> Inside | None:
        return self._of(key).inside(key)

    def reported(self, key: AttemptKey) -> dict[str, str]:
        return self._of(key).reported(key)

    async def program(self, key: AttemptKey, wanted: Enter) -> Way:
        return await self._of(key).program(key, wanted)

    def disk_permille(self) -> int:
        return self._processes.disk_permille()

    async def close(self) -> None:
        for machine in self._all:
            await machine.close()

    def _for(self, launch: Launch) -> ContainerMachine | ProcessMachine:
        return self._containers if launch.image else self._processes

    def _of(self, key: AttemptKey) -> ContainerMachine | ProcessMachine:
        return self._containers if self._containers.look(key) is not None else self._processes
