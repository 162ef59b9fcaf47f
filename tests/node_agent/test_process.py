"""The agent as a process of its own, over a real bus."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.conftest import NatsServer
from tests.node_agent.rig import Placement, until

from headrace.bus.nats import NatsBus
from headrace.node_agent import folders
from headrace.node_agent.stopping import stop_all

AGENT = (sys.executable, "-m", "headrace.node_agent")


class Place:
    """A folder with what an agent's process needs."""

    def __init__(self, folder: Path, nats_url: str) -> None:
        self.node_dir, self.run_dir, self.keys_dir = (folder / n for n in ("node", "run", "keys"))
        for made in (self.run_dir, self.keys_dir):
            made.mkdir()
        self.stderr = folder / "stderr"
        self.env = {
            "PATH": os.environ["PATH"],
            "HEADRACE_NODE": "n1",
            "HEADRACE_NODE_DIR": str(self.node_dir),
            "HEADRACE_NODE_GPUS": "simulated:8xH100-80GB",
            "HEADRACE_NATS_URL": nats_url,
            "HEADRACE_KEYS_DIR": str(self.keys_dir),
            "HEADRACE_RUN_DIR": str(self.run_dir),
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        with self.stderr.open("ab") as stderr:
            agent = subprocess.Popen(AGENT, env=self.env, stderr=stderr, start_new_session=True)
        self.processes.append(agent)
        return agent

    def says(self) -> str:
        return self.stderr.read_text()

    def is_ready(self) -> bool:
        try:
            port = (self.run_dir / "node_agent.port").read_text().strip()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@pytest.fixture
def place(tmp_path: Path, own_nats: NatsServer) -> Iterator[Place]:
    place = Place(tmp_path, own_nats.url)
    yield place
    for process in place.processes:
        process.kill()
        process.wait()
    stop_all(place.node_dir)


@pytest.fixture
async def placement(place: Place) -> AsyncIterator[Placement]:
    bus = await NatsBus.connect(place.env["HEADRACE_NATS_URL"])
    placement = Placement(bus, place.keys_dir)
    await placement.open()
    yield placement
    await bus.close()


async def ready(place: Place) -> None:
    await until(place.is_ready, "the agent is ready")


async def test_an_agent_runs_what_placement_signs_and_leaves_it_running_when_it_ends(
    place: Place, placement: Placement
) -> None:
    first = place.start()
    await ready(place)
    short = await placement.want("short-1", "true")
    long = await placement.want("long-1", "/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.01; done")
    assert (await placement.ended(short)).exit_code == 0
    await placement.started(long)

    first.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, 60) == 0
    folder = place.node_dir / folders.name_of(long)
    assert folders.shim_of(folder)
    (folder / "work" / "go").touch()
    place.start()

    assert (await placement.ended(long)).exit_code == 0
    assert "Traceback" not in place.says()


async def test_an_agent_that_is_killed_is_replaced_by_the_next(
    place: Place, placement: Placement
) -> None:
    for number in range(3):
        agent = place.start()
        await until(lambda n=number: len(placement.of(("job-0", 1, 0))) >= min(1, n), "going on")
        await ready(place)
        key = await placement.want(f"job-{number}", "sleep", "0.1")
        await placement.started(key)
        agent.kill()
        agent.wait()
    place.start()

    for number in range(3):
        assert (await placement.ended(("job-" + str(number), 1, 0))).exit_code == 0
    assert "Traceback" not in place.says()


async def test_a_second_agent_in_the_same_folder_ends_with_one_line(
    place: Place, placement: Placement
) -> None:
    place.start()
    await ready(place)

    second = place.start()

    assert await asyncio.to_thread(second.wait, 60) == 1
    assert f"another agent works in {place.node_dir}" in place.says()
    assert "Traceback" not in place.says()


@pytest.mark.parametrize("name", ["stderr/node", "taken"])
async def test_a_folder_that_cannot_be_had_ends_with_one_line(place: Place, name: str) -> None:
    place.env["HEADRACE_NODE_DIR"] = str(place.run_dir.parent / name)
    (place.run_dir.parent / "taken").touch()
    agent = place.start()

    assert await asyncio.to_thread(agent.wait, 60) == 1
    (line,) = place.says().splitlines()
    assert place.env["HEADRACE_NODE_DIR"] in line


async def test_an_agent_waits_for_its_bus_and_outlives_its_restart(
    place: Place, placement: Placement, own_nats: NatsServer
) -> None:
    own_nats.stop()
    place.start()
    await until(lambda: "ConnectionRefused" in place.says(), "it finds no bus")
    own_nats.start()
    await ready(place)
    key = await placement.want("job-1", "/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.01; done")
    await placement.started(key)

    own_nats.kill()
    (place.node_dir / folders.name_of(key) / "work" / "go").touch()
    own_nats.start()

    assert (await placement.ended(key)).exit_code == 0
    assert "Traceback" not in place.says()


async def test_an_operator_ends_everything_and_is_told_how_many(
    place: Place, placement: Placement
) -> None:
    agent = place.start()
    await ready(place)
    for number in range(3):
        await placement.started(await placement.want(f"job-{number}", "sleep", "1000"))
    agent.kill()
    agent.wait()

    said = await asyncio.to_thread(
        subprocess.run, [*AGENT, "--stop-all", place.node_dir], env=place.env, capture_output=True
    )

    assert (said.returncode, said.stdout) == (0, b"3 attempts ended\n")
