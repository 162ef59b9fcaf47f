"""The nodes: a machine each, and the agent on it, a process that dies and comes back.

Rule: an agent that dies takes nothing with it; a machine that is switched off takes everything but
its disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.bus.interface import BusError
from headrace.bus.memory import MemoryBus
from headrace.simulation.machine import SimulatedMachine, SimulatedProcesses
from headrace.simulation.parts import AgentParts
from headrace.simulation.processes import Killed, Process

if TYPE_CHECKING:
    from headrace.simulation.world import World

RESTART_S_MAX = 0.5  # until a supervisor has a dead agent up again


class Node:
    """One node of the simulated fleet."""

    def __init__(self, world: World, name: str, gpus: int, chance: random.Random) -> None:
        self.name = name
        self.client = ""  # its agent's name on the bus
        self.machine = SimulatedMachine(name, gpus, chance, AgentParts())
        self._world = world
        self._process: Process | None = None
        self._processes: SimulatedProcesses | None = None
        self._armed = ""
        self._starts = 0

    @property
    def is_up(self) -> bool:
        """Whether the agent's process lives."""
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start the agent, unless it lives or the machine is off."""
        if self.is_up or not self.machine.is_on:
            return
        self._starts += 1
        self._armed = ""
        self.client = f"{self.name}-{self._starts}"
        self._processes = SimulatedProcesses(self.machine)
        process = self._process = Process(self.client, self._ended)
        process.on_kill(self._cut)
        process.start(self._program(process, self._processes))

    def kill(self) -> None:
        """The agent dies; what runs, runs on."""
        if self._process is not None:
            self._process.kill()

    def crash_at(self, point: str) -> None:
        """Die the next time the agent passes this point."""
        self._armed = point

    def reboot(self, for_s: float) -> None:
        """The machine is off for so long, then boots anew."""
        self.machine.power_off()
        self.kill()
        self._world.loop.call_later(for_s, self.heal)

    def heal(self) -> None:
        """Switch the machine on, if it is off, and its agent with it."""
        self._armed = ""
        if not self.machine.is_on:
            self.machine.power_on()
        self.start()

    async def _program(self, process: Process, processes: SimulatedProcesses) -> None:
        world = self._world
        bus = MemoryBus(world.broker, self.client)
        agent = self.machine.parts.agent(
            self.machine, processes, bus, world.keys, self._passing(process)
        )
        world.mutation(agent)
        await agent.run()

    def _passing(self, process: Process) -> Callable[[str], None]:
        def passing(point: str) -> None:
            if self._armed == point and process.alive:
                self._world.fired[point] += 1
                process.kill()
                raise Killed

        return passing

    def _cut(self) -> None:
        self._world.broker.clients.pop(self.client, None)
        if self._processes is not None:
            self._processes.cut()

    def _ended(self, _process: Process, error: BaseException | None) -> None:
        world = self._world
        if error is not None and not isinstance(error, Killed | BusError | OSError):
            world.wrong.append(f"{self.name} failed: {type(error).__name__}: {error}")
        world.loop.call_later(world.chance.uniform(0.05, RESTART_S_MAX), self.start)
