"""One simulated history: everything set up from a seed, run to its end, and judged.

Rule: faults and requests come while `BUSY_S` lasts, and in some histories a node is out of touch for
longer than that; then everything heals, and within `settle_s` every job must have ended or wait for
a reason: each is short, but for the one that is there for its lease and may have to begin anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headrace.bus.memory import MemoryBroker
from headrace.decider.version import decision_version, installed_deciders
from headrace.simulation import faults, workload
from headrace.simulation.fleet import Node
from headrace.simulation.incidents import Incidents
from headrace.simulation.judgement import judge
from headrace.simulation.loop import VirtualLoop, run
from headrace.simulation.parts import AGENT_POINTS, DECIDING, Keys
from headrace.simulation.people import People
from headrace.simulation.processes import Process, own
from headrace.simulation.services import Instance, store_of
from headrace.simulation.surroundings import seeded
from headrace.simulation.weather import Weather
from headrace.store.memory import MemoryLog, MemoryStore

BUSY_S = 14.0
SETTLE_S = 120.0
LOOK_S = 0.5
QUIET_S = 11.0  # longer than an agent waits between two hellos: jobs may wait for its node
TOLD_MAX = 30  # last things told of a history that went wrong

Mutation = Callable[[Any], None]  # changes a host or an agent before it runs: a planted bug


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a history: `wrong` is empty when all promises were kept."""

    seed: int
    digest: str
    events: int
    fired: dict[str, int]
    wrong: tuple[str, ...]
    told: tuple[str, ...]
    virtual_s: float


class World:
    """Everything of one history."""

    def __init__(self, seed: int, disk: Path, mutation: Mutation) -> None:
        self.seed, self.disk = seed, disk
        self.mutation = mutation
        self.loop = VirtualLoop()
        self.loop.on_task = own
        self.chance = random.Random(f"world {seed}")
        self.fired: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.ahead_us = 0  # the clock of the database, of all others
        self.told: deque[str] = deque(maxlen=TOLD_MAX)
        self.weather = Weather(random.Random(f"weather {seed}"), self.fired)
        self.log, self.broker = MemoryLog(), MemoryBroker()
        self.broker.deliver_faults = self.weather.deliveries
        self.keys, self.version = Keys(), decision_version()
        self.deciders = installed_deciders()
        self.instances = {name: (Instance(self, name, "a"), Instance(self, name, "b"))
                          for name in DECIDING}  # fmt: skip
        self.drawn = workload.draw(random.Random(f"workload {seed}"), BUSY_S * 0.8)
        self.nodes = {
            name: Node(self, name, hardware, random.Random(f"{name} {seed}"))
            for name, hardware in self.drawn.nodes.items()
        }
        chance = random.Random(f"faults {seed}")
        self.faults = faults.draw(chance, list(self.nodes), BUSY_S, AGENT_POINTS)
        self.busy_s = max(BUSY_S, *(f.at_s + f.for_s for f in self.faults))
        self.has_leased = self.busy_s > BUSY_S
        self.settle_s = SETTLE_S + (workload.LEASED_RUN_S if self.has_leased else 0.0)
        self.people = People(self)

    def tell(self, what: str) -> None:
        """Remember something for whoever reads about a history that went wrong."""
        self.told.append(f"{self.loop.time():8.3f} s  {what}")

    def store_for(self, process: Process, service: str, holder: str) -> MemoryStore:
        """The log, as this process reaches it."""
        return store_of(self, process, service, holder)

    def leader_of(self, service: str) -> Instance | None:
        """The instance that leads now, if one does."""
        for instance in self.instances[service]:
            if instance.is_up and instance.host is not None and instance.host.leading:
                return instance
        return None

    def other(self, instance: Instance) -> Instance:
        """The service's other instance."""
        one, two = self.instances[instance.service]
        return two if instance is one else one

    def client_of(self, target: str) -> str:
        """The name on the bus of a node's agent or a service's leader; empty when it is down."""
        if target in self.nodes:
            return self.nodes[target].client if self.nodes[target].is_up else ""
        leader = self.leader_of(target)
        return leader.client if leader is not None else ""

    async def live(self) -> None:
        """The history."""
        for one, _ in self.instances.values():
            one.start()
        for node in self.nodes.values():
            node.start()
        await self.people.listen()
        for asked in (*self.drawn.asked, *((workload.leased(),) if self.has_leased else ())):
            self.people.ask(asked)
        Incidents(self).schedule(self.faults)
        await asyncio.sleep(self.busy_s)
        self._heal()
        await self._settled()
        self.wrong.extend(await judge(self))

    async def _settled(self) -> None:
        """Return once nothing has happened for a while, or after `settle_s`."""
        quiet_s, head = 0.0, 0
        for _ in range(int(self.settle_s / LOOK_S)):
            await asyncio.sleep(LOOK_S)
            is_quiet = self._is_settled() and len(self.log.events) == head
            quiet_s = quiet_s + LOOK_S if is_quiet else 0.0
            head = len(self.log.events)
            if quiet_s >= QUIET_S:
                return

    def _heal(self) -> None:
        self.weather.clear()
        self.tell("everything heals")
        for client in list(self.broker.clients):
            self.broker.connect(client)
        for one, two in self.instances.values():
            for instance in (one, two):
                instance.crash_at("")
            if not two.is_up:
                self.loop.call_later(0.1, one.start)
        for node in self.nodes.values():
            node.crash_at("")

    def _is_settled(self) -> bool:
        if self.people.unanswered or any(node.machine.running() for node in self.nodes.values()):
            return False
        leader = self.leader_of("placement")
        if leader is None or leader.host is None:
            return False
        state = leader.host.state
        idle = all(job.run is None for job in state.jobs.values())
        return idle and leader.host.position == len(self.log.events)


def simulate(seed: int, mutation: Mutation = lambda _host: None) -> Outcome:
    """Run the history of this seed."""
    with tempfile.TemporaryDirectory(prefix="headrace-simulation-") as disk:
        world = World(seed, Path(disk), mutation)
        with seeded(seed, world.loop.time):
            run(world.live(), world.loop)
    world.wrong.extend(f"an error went unheard: {error}" for error in world.loop.errors)
    digest = hashlib.sha256(world.log.events[-1].hash if world.log.events else b"")
    for node in world.nodes.values():
        digest.update("\n".join(node.machine.journal).encode())
    return Outcome(
        seed=seed,
        digest=digest.hexdigest(),
        events=len(world.log.events),
        fired=dict(world.fired),
        wrong=tuple(dict.fromkeys(world.wrong)),
        told=tuple(world.told),
        virtual_s=round(world.loop.time(), 3),
    )
