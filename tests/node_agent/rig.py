"""A node for the tests: a real agent over the in-memory bus, and the placement it answers to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.node_agent.placement_twin import NODE, Placement, until

from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.events.nodes import NodeJoined
from headrace.node_agent import folders
from headrace.node_agent.agent import Agent
from headrace.node_agent.devices import Devices
from headrace.node_agent.devices.simulated import SimulatedDevices
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.enforcement.mps import Mps
from headrace.node_agent.gang_network.network import GangNetwork
from headrace.node_agent.identity import NodeKeys
from headrace.node_agent.isolation import ACCOUNT_RECORDED, Isolation, Processes, views, ways
from headrace.node_agent.isolation.accounts import Accounts
from headrace.node_agent.isolation.views import Views
from headrace.node_agent.journal_file import FileJournal
from headrace.node_agent.lease import FileLease
from headrace.node_agent.machine import AttemptKey, Machine
from headrace.node_agent.pausing import Driver, NoDriver
from headrace.node_agent.process_machine import ProcessMachine
from headrace.node_agent.start_spec import MachineSettings
from headrace.node_agent.stopping import stop_all
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.protocol import ATTEMPTS, LAUNCHER_LOCK
from headrace.node_agent.surroundings import Surroundings
from headrace.node_agent.worker_ports import is_taken
from headrace.node_agent.workplaces.fetching import Files
from headrace.node_agent.workplaces.preparing import Workplaces
from headrace.node_agent.workplaces.repositories import Repositories


class Node:
    """A node's folder, and the agents that work in it one after the other."""

    def __init__(self, folder: Path, broker: MemoryBroker | None = None) -> None:
        self.dir = folder / "node"
        self.keys_dir = folder / "keys"
        self.dir.mkdir(mode=0o700)
        self.keys_dir.mkdir(mode=0o700)
        self.broker = broker or MemoryBroker()
        self.placement = Placement(MemoryBus(self.broker, "placement"), self.keys_dir)
        self.attempt_journal = folder / "attempts.journal"
        self.simulated = self.dir / "simulated"
        self.devices: Callable[[], Devices] = self._simulated
        self.mps: Mps | None = None
        self.machine: Callable[[MachineSettings], Machine] = ProcessMachine
        self.boot = kernel.boot_id()
        self.output_bytes_max = 1_000_000
        self.isolation: Isolation = Processes()
        self.views: Views | None = None
        if os.geteuid() == 0:
            self.views = views.probe(self.dir, (), shown=[folder])
        self.hidden: tuple[str, ...] = ()
        self.loopback = ""
        self.accounts = Accounts()
        self.driver: Driver = NoDriver()
        self.task: asyncio.Task[None] | None = None
        self.incarnations = 0
        self.silence_s_max = 5.0
        self.network = GangNetwork()

    async def start(self) -> Agent:
        """Start an agent, with no memory but the folder's."""
        bus = MemoryBus(self.broker, f"agent-{time.monotonic_ns()}")
        enforcer = Enforcer(self.devices(), self.dir, self.mps)
        keys = NodeKeys(self.dir, self.keys_dir)
        self.lease = FileLease(self.dir)
        machine = self.machine(
            MachineSettings(
                node_dir=self.dir,
                node=NODE,
                bind=enforcer.bind,
                devices_of=enforcer.devices_of,
                journal=str(self.attempt_journal),
                output_bytes_max=self.output_bytes_max,
                isolation=self.isolation,
                views=self.views,
                loopback=self.loopback,
                accounts=self.accounts,
                driver=self.driver,
                base_environment={**os.environ, "HEADRACE_NATS_CREDS": "not-for-workers"},
            )
        )
        self.journal = self._journal(keys)
        given = Surroundings(
            node=self._joined(enforcer.devices, keys),
            bus=bus,
            machine=machine,
            journal=self.journal,
            enforcer=enforcer,
            lease=self.lease,
            is_granted=keys.is_granted,
            unseal=keys.unseal,
            now_us=lambda: time.time_ns() // 1000,
            workplaces=self._workplaces(bus),
            is_taken=is_taken,
            network=self.network,
        )
        self.agent = Agent(given)
        self.task = asyncio.create_task(self.agent.run())
        return self.agent

    def grant_no_namespaces(self) -> list[str]:
        """As on a host without them; which folders above the node's are closed to accounts."""
        self.views = None
        if os.geteuid() != 0:
            return []
        return ways.open_ways(self.dir, [str(self.dir / ATTEMPTS)])

    async def ready(self) -> None:
        await until(lambda: self.agent.is_ready, "the agent is ready")

    async def kill_agent(self) -> None:
        """End the agent at once: it writes and says nothing any more."""
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        self.task = None

    def folder(self, key: AttemptKey) -> Path:
        return self.dir / folders.name_of(key)

    def shim(self, key: AttemptKey) -> int:
        return folders.shim_of(self.folder(key))

    @property
    def kept_apart(self) -> str:
        """What the record of an attempt says behind the level of its groups."""
        account = ACCOUNT_RECORDED if os.geteuid() == 0 else ""
        return account + (self.views.recorded if self.views is not None else "")

    def launcher(self) -> int:
        """The pid of the launcher, 0 when there is none."""
        return folders.holder_of(self.dir / LAUNCHER_LOCK)

    def journal_lines(self, key: AttemptKey) -> list[str]:
        """What the journal outside Headrace says of this attempt."""
        if not self.attempt_journal.exists():
            return []
        lines = [line.split() for line in self.attempt_journal.read_text().splitlines()]
        return [w[0] for w in lines if w[1:4] == [key.job, str(key.attempt), str(key.rank)]]

    def intent(self, key: AttemptKey) -> folders.Intent:
        intent = folders.read_intent(self.folder(key))
        assert intent is not None
        return intent

    def left_of(self, marker: str) -> list[int]:
        return tree.of_attempt(marker, [], [])

    async def close(self) -> None:
        if self.task is not None:
            await self.kill_agent()
        await asyncio.to_thread(stop_all, self.dir)

    def _owner_of(self, user: str, number: int) -> tuple[int, int] | None:
        account = self.accounts.of(user, number)
        return account[:2] if account else None

    def _workplaces(self, bus: MemoryBus) -> Workplaces:
        files = Files(bus, NODE, silence_s_max=self.silence_s_max)
        return Workplaces(
            files, self.dir, self._owner_of, Repositories(("https", "file")), self.hidden
        )

    def _journal(self, keys: NodeKeys) -> FileJournal:
        return FileJournal.open(
            self.dir / "journal.jsonl", boot=self.boot, granter=keys.granter,
            new_incarnation=self._incarnation,
        )  # fmt: skip

    def _incarnation(self) -> str:
        self.incarnations += 1
        return f"journal-{self.incarnations}"

    def _simulated(self) -> Devices:
        return SimulatedDevices("simulated:8xH100-80GB", NODE, self.dir)

    def _joined(self, devices: Devices, keys: NodeKeys) -> NodeJoined:
        return NodeJoined(
            node=NODE,
            host="host",
            address="127.0.0.1",
            boot="",
            incarnation="",
            public_key=keys.public_key,
            cpu_milli=devices.cpu_milli,
            memory_bytes=devices.memory_bytes,
        )


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
