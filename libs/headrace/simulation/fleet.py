"""The nodes: a machine each, and the agent on it, a process that dies and comes back.

Rule: an agent that dies takes nothing with it; a machine that is switched off takes everything but
its disk.
"""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING

from headrace.bus.interface import BusError
from headrace.bus.memory import MemoryBus
from headrace.events.nodes import NodeJoined
from headrace.simulation.administration import Hardware
from headrace.simulation.machine import SimulatedMachine
from headrace.simulation.machine_view import SimulatedProcesses
from headrace.simulation.parts import AgentParts, node_key
from headrace.simulation.processes import Killed, Process

if TYPE_CHECKING:
    from headrace.simulation.world import World

RESTART_S_MAX = 0.5  # until a supervisor has a dead agent up again


class Node:
    """One node of the simulated fleet."""

    def __init__(self, world: World, name: str, hardware: Hardware, chance: random.Random) -> None:
        self.name = name
        self.client = ""  # its agent's name on the bus
        self.machine = SimulatedMachine(name, hardware, chance, AgentParts())
        self._labels = hardware.labels
        self._world = world
        self._process: Process | None = None
        self._processes: SimulatedProcesses | None = None
        self._armed = ""
        self._starts = 0
        self._cut_until_s = 0.0

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
        if self._world.loop.time() < self._cut_until_s:
            self._world.broker.disconnect(self.client)
        self._processes = SimulatedProcesses(self.machine, self._passing)
        process = self._process = Process(self.client, self._ended)
        process.on_kill(self._cut)
        process.start(self._program(self._processes))

    def kill(self) -> None:
        """The agent dies; what runs, runs on."""
        if self._process is not None:
            self._process.kill()

    def cut_off(self, for_s: float) -> None:
        """Whatever agent this machine has or gets is off the bus for so long."""
        self._cut_until_s = self._world.loop.time() + for_s
        self._world.broker.disconnect(self.client)
        self._world.loop.call_later(for_s, self._reconnect)

    def crash_at(self, point: str) -> None:
        """Die the next time the agent passes this point."""
        self._armed = point

    def switch_off(self) -> None:
        """The machine loses power, and its agent with it."""
        self.machine.power_off()
        self.kill()

    def switch_on(self) -> None:
        """The machine boots, if it was off, and its agent starts."""
        if not self.machine.is_on:
            self.machine.power_on()
            self.start()

    async def _program(self, processes: SimulatedProcesses) -> None:
        world, parts = self._world, self.machine.parts
        journal = parts.journal(
            world.disk / f"{self.name}.journal", self.machine.boot_id, self._passing
        )
        agent = parts.agent(
            keys=world.keys,
            journal=journal,
            node=self._joined(),
            bus=MemoryBus(world.broker, self.client),
            machine=processes,
            devices=self.machine.devices,
            lease=self.machine.lease,
        )
        world.mutation(agent)
        try:
            await agent.run()
        finally:
            journal.close()

    def _joined(self) -> NodeJoined:
        public = node_key(self.name).public_key().public_bytes_raw()
        return NodeJoined(
            node=self.name,
            host=f"{self.name}.example",
            address=f"192.0.2.{self.name.removeprefix('n')}",
            boot="",
            incarnation="",
            public_key=base64.b64encode(public).decode(),
            cpu_milli=self.machine.devices.cpu_milli,
            memory_bytes=self.machine.devices.memory_bytes,
            pausing=self.machine.pausing,
            labels=self._labels,
        )

    def _passing(self, point: str) -> None:
        if self._armed == point and self._process is not None and self._process.alive:
            self._world.fired[point] += 1
            self._world.fired["agent.crashed"] += 1
            self._process.kill()
            raise Killed

    def _cut(self) -> None:
        self._world.broker.clients.pop(self.client, None)
        if self._processes is not None:
            self._processes.cut()

    def _reconnect(self) -> None:
        """The agent is on the bus again, unless the machine is cut off still."""
        if self._world.loop.time() >= self._cut_until_s:
            self._world.broker.connect(self.client)

    def _ended(self, _process: Process, error: BaseException | None) -> None:
        world = self._world
        if error is not None and not isinstance(error, Killed | BusError | OSError):
            world.wrong.append(f"{self.name} failed: {type(error).__name__}: {error}")
        world.loop.call_later(world.chance.uniform(0.05, RESTART_S_MAX), self.start)
