"""Instances of the deciding services, each a process that dies and comes back.

Rule: what an instance keeps over its death is its name; everything else it reads from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.bus.interface import BusError
from headrace.bus.memory import MemoryBus
from headrace.runtime.host import Host
from headrace.runtime.relay import Relay
from headrace.simulation import workload
from headrace.simulation.parts import service_of
from headrace.simulation.processes import Killed, Process
from headrace.simulation.surroundings import EPOCH_US
from headrace.store.interface import Unavailable
from headrace.store.memory import MemoryStore
from headrace.store.roles import role_of

if TYPE_CHECKING:
    from headrace.simulation.world import World

RESTART_S_MAX = 1.0  # until a supervisor has a dead process up again


class Instance:
    """One instance of a service: `<service>-a` from the beginning, `<service>-b` when needed."""

    def __init__(self, world: World, service: str, letter: str) -> None:
        self.service, self.holder = service, f"{service}-{letter}"
        self.process: Process | None = None
        self.host: Host | None = None
        self.client = ""  # its name on the bus
        self._world = world
        self._armed = ""
        self._starts = 0
        self._stays_down_until_s = 0.0

    @property
    def is_up(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Start the process, unless it lives."""
        if self.is_up:
            return
        self._starts += 1
        self.client = f"{self.holder}-{self._starts}"
        self._armed = ""
        process = self.process = Process(self.client, self._ended)
        process.on_kill(self._cut)
        process.start(self._program(process))

    def crash_at(self, point: str) -> None:
        """Die the next time the program passes this point."""
        self._armed = point

    def kill(self, for_s: float = 0.0) -> None:
        """Die now, and stay down for at least so long."""
        self._stays_down_until_s = self._world.loop.time() + for_s
        if self.process is not None:
            self.process.kill()

    async def _program(self, process: Process) -> None:
        world = self._world
        bus = MemoryBus(world.broker, self.client)
        store = world.store_for(process, self.service, self.holder)
        service = service_of(self.service, world.keys, workload.SETTINGS)
        if service.posting is not None:  # whoever is simulated posts without a credential
            service = replace(service, posting=lambda state: (state.queues.keys(), ()))
        self.host = Host(
            service,
            store=store,
            bus=bus,
            vault=store,
            monotonic_s=world.loop.time,
            holder=self.holder,
            decision_version=world.version,
            crashpoint=self._passing(process),
        )
        world.mutation(self.host)
        if service.relay:
            relay = Relay(store, bus)
            self.host.on_folded = relay.heard
            relaying = asyncio.create_task(relay.run())
            relaying.add_done_callback(lambda _done: None)
        await self.host.run()

    def _passing(self, process: Process) -> Callable[[str], None]:
        def passing(point: str) -> None:
            if self._armed == point and process.alive:
                self._world.fired[point] += 1
                self._world.fired["service.crashed"] += 1
                process.kill()
                raise Killed

        return passing

    def _cut(self) -> None:
        self._world.broker.clients.pop(self.client, None)

    def _ended(self, _process: Process, error: BaseException | None) -> None:
        world = self._world
        if error is not None and not isinstance(error, Killed | Unavailable | BusError):
            world.wrong.append(f"{self.holder} failed: {type(error).__name__}: {error}")
        again_s = max(
            world.chance.uniform(0.05, RESTART_S_MAX),
            self._stays_down_until_s - world.loop.time(),
        )
        world.loop.call_later(again_s, self.start)


def store_of(world: World, process: Process, service: str, holder: str) -> MemoryStore:
    """The log as one process reaches it: slowly, sometimes not at all, and never after its death."""

    async def fault(operation: str) -> None:
        await world.weather.store(operation, service, holder)
        if not process.alive:
            await asyncio.get_running_loop().create_future()  # for ever: nobody is there any more

    def now_us() -> int:
        return EPOCH_US + int(world.loop.time() * 1_000_000) + world.ahead_us

    return MemoryStore(world.log, now_us, role=role_of(service), fault=fault)
