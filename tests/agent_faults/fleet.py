"""A real placement and real agents on machines that can be cut off, over a real bus.

Rule: placement decides as it does in production, on settings that are as many seconds as a fleet's
are minutes. What really ran is read from a journal that the workers keep outside Headrace.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.agent_faults.network import Forward, Namespace
from tests.placement.agents import MASTER, Platform

from headrace.bus.agents import Launch
from headrace.bus.nats import NatsBus
from headrace.events.nodes import NodeChangeRequested, NodeJoined
from headrace.events.queues import Queue, QueueConfigured
from headrace.node_agent import folders
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.stopping import stop_all
from headrace.placement.decide import DECIDER
from headrace.placement.requests import change_node
from headrace.placement.shell import PlacementShell
from headrace.runtime.host import Host
from headrace.runtime.reader import entry_of
from headrace.runtime.service import Service
from headrace.store.memory import MemoryStore
from headrace.verification import check_journal
from headrace.verification.invariants import Checker

SETTINGS = {"silence_s": 2, "stop_grace_s": 1, "replace_margin_s": 3, "silent_together_s": 5}
REPLACE_AFTER_S = 8  # more than two renewals
EXPIRES_S = REPLACE_AFTER_S + 4 + 4  # with grace and margin, and until it has been looked
WAIT_S = 60.0


class Fleet(Platform):
    """Placement, and two machines `n1` and `n2` in namespaces of their own."""

    def __init__(self, folder: Path, nats_url: str) -> None:
        super().__init__(SETTINGS)
        self.folder, self.nats_url = folder, nats_url
        self.clock_ahead_us = 0  # by how much the database's wall clock is wrong
        self.journal = folder / "attempts.journal"
        self.nodes: dict[str, Machine] = {}

    def new_store(self) -> MemoryStore:
        return MemoryStore(self.log, lambda: time.time_ns() // 1000 + self.clock_ahead_us)

    async def start(self) -> None:
        shell = PlacementShell(
            master_key=MASTER, vault_key=self.vault_private, grant_key=self.grant_private
        )
        service = Service(
            decider=DECIDER,
            shell=shell,
            requests={"node.change": change_node},
            settings=self.settings,
        )
        self.host = Host(
            service,
            store=self.new_store(),
            bus=await NatsBus.connect(self.nats_url),
            vault=self.store,
            monotonic_s=time.monotonic,
            holder="placement-a",
            decision_version="v",
        )
        self.running = asyncio.create_task(self.host.run())
        await self.until(lambda: self.host.leading, "placement leads")
        queue = Queue(queue="vision", kind="project")
        await self.append(QueueConfigured(name="vision", queue=queue, change="created"))
        for number, name in enumerate(("n1", "n2")):
            machine = self.nodes[name] = Machine(self, name, Namespace(number))
            await machine.open()
        await self.until(lambda: len(self.events(NodeJoined)) >= 2, "both machines have joined")

    async def close(self) -> None:
        for machine in self.nodes.values():
            await machine.close()
        await self.stop()

    async def submit_job(self, job: str, command: str, replace_after_s: int = 0) -> None:
        """A job of one GPU that runs this in a shell."""
        launch = Launch(command=("/bin/sh", "-c", command))
        await self.submit(job, launch, replace_after_us=replace_after_s * 1_000_000)
        await self.until(lambda: self.worker(job), f"{job} is placed")

    async def fence(self, node: str) -> None:
        await self.append(NodeChangeRequested(node=node, change="fence"))

    def worker(self, job: str) -> tuple[str, int] | None:
        """The node and attempt of the job's live attempt."""
        live = self.host.state.jobs.get(job)
        if live is None or live.run is None:
            return None
        return live.run.workers[0].node, live.run.attempt

    def has_ended(self, job: str) -> bool:
        return job not in self.host.state.jobs

    def folder_of(self, node: str, job: str, attempt: int) -> Path:
        return self.nodes[node].dir / folders.name_of(AttemptKey(job, attempt, 0))

    async def started(self, job: str) -> tuple[str, int]:
        """Where it runs, once it does."""
        await self.until(lambda: self._is_started(job), f"{job} runs")
        worker = self.worker(job)
        assert worker is not None
        return worker

    async def until(self, condition: Any, what: str) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline_s, f"never happened: {what}"
            await asyncio.sleep(0.02)

    def ran(self, job: str) -> list[str]:
        """What the workers' own journal says of the job, in order: `start 1`, `end 1`, …"""
        lines = [line.split() for line in self.journal.read_text().splitlines()]
        return [f"{what} {attempt}" for what, name, attempt, *_ in lines if name == job]

    def violations(self) -> list[str]:
        """What breaks a promise, in the log or in what really ran."""
        checker = Checker()
        found = [
            str(violation)
            for entry in self.entries()
            for violation in checker.check(entry)
            if violation.invariant in {"I2", "I3", "I7"}
        ]
        if self.journal.exists():
            found += map(str, check_journal(self.journal.read_text().splitlines()))
        return found

    def entries(self) -> list[Any]:
        return [entry_of(stored) for stored in self.log.events]

    def _is_started(self, job: str) -> bool:
        live = self.host.state.jobs.get(job)
        return bool(live is not None and live.run is not None and live.run.begun_us)


class Machine:
    """A machine's folder, its agent's process and its network."""

    def __init__(self, fleet: Fleet, name: str, network: Namespace) -> None:
        self.network, self._fleet, self._name = network, fleet, name
        self.dir = fleet.folder / name
        self.keys_dir = fleet.folder / f"{name}-keys"
        self.keys_dir.mkdir()
        (self.keys_dir / "grant.pub").write_bytes(fleet.grant_public)
        self.said = fleet.folder / f"{name}.log"
        self.agent: subprocess.Popen[bytes] | None = None
        port = urlsplit(fleet.nats_url).port
        assert port is not None
        self._forward = Forward(port)
        self._port = 0

    async def open(self) -> None:
        self._port = await self._forward.open(self.network.host)
        self.start_agent()

    def start_agent(self) -> subprocess.Popen[bytes]:
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HEADRACE_NODE": self._name,
            "HEADRACE_NODE_DIR": str(self.dir),
            "HEADRACE_NODE_GPUS": "simulated:1xH100-80GB",
            "HEADRACE_NATS_URL": f"nats://{self.network.host}:{self._port}",
            "HEADRACE_KEYS_DIR": str(self.keys_dir),
            "HEADRACE_RUN_DIR": str(self.dir),
            "HEADRACE_ATTEMPT_JOURNAL": str(self._fleet.journal),
        }
        command = (*self.network.prefix, sys.executable, "-m", "headrace.node_agent")
        with self.said.open("ab") as log:
            self.agent = subprocess.Popen(command, env=env, stderr=log, start_new_session=True)
        return self.agent

    @contextlib.contextmanager
    def impostor(self) -> Iterator[Machine]:
        """An agent of the same name with a folder of its own, as a copied machine has one."""
        other = copy.copy(self)
        other.dir = self.dir.with_suffix(".copy")
        other.said = self.said.with_suffix(".copy.log")
        agent = other.start_agent()
        try:
            yield other
        finally:
            agent.kill()
            agent.wait()
            stop_all(other.dir)

    def attempts(self) -> list[AttemptKey]:
        """What has ever been started here."""
        return [key for key, _ in folders.keys_in(self.dir)]

    def kill_agent(self, number: int = signal.SIGKILL) -> None:
        assert self.agent is not None
        self.agent.send_signal(number)
        self.agent.wait()

    async def power_off(self) -> None:
        """Everything that runs there ends; nobody gets to say so."""
        self.network.cut()
        self.kill_agent()
        await asyncio.to_thread(stop_all, self.dir)

    async def close(self) -> None:
        if self.agent is not None and self.agent.poll() is None:
            self.agent.send_signal(signal.SIGCONT)
            self.agent.kill()
            self.agent.wait()
        await asyncio.to_thread(stop_all, self.dir)
        await self._forward.close()
        self.network.remove()
