"""What a machine itself can do to a node: full disks, processes that cannot be killed, pids that are
used again, clocks that jump, a second agent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.agent_faults import network
from tests.agent_faults.fleet import REPLACE_AFTER_S, Fleet, Machine
from tests.conftest import NatsServer
from tests.node_agent.rig import Node, kill, until

from headrace.events.attempts import AttemptExpired
from headrace.events.nodes import NodeJoined
from headrace.node_agent.supervision import kernel

pytestmark = pytest.mark.agent_faults
SH = "/bin/sh"
UNTIL_TOLD = "while [ ! -e go ]; do sleep 0.05; done; exit 7"
FREEZER = Path("/sys/fs/cgroup/freezer")
YEAR_US = 365 * 86_400_000_000
in_network = pytest.mark.skipif(not network.IS_POSSIBLE, reason=network.WHY_NOT)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)), check=True)
    yield disk
    subprocess.run(("umount", "--lazy", str(disk)), check=True)


@pytest.fixture
async def small(disk: Path, tmp_path: Path) -> AsyncIterator[Node]:
    """A node on that disk."""
    node = Node(disk)
    node.attempt_journal = tmp_path / "attempts.journal"
    node.output_bytes_max = 1 << 30
    await node.placement.open()
    await node.start()
    await node.ready()
    yield node
    await node.close()


async def test_a_disk_that_a_job_fills_costs_no_exit_code_and_no_report(small: Node) -> None:
    key = await small.placement.want("job-1", SH, "-c", "yes | head -c 9000000; exit 7")
    assert (await small.placement.ended(key)).exit_code == 7
    assert small.agent._machine.disk_permille() > 900

    second = await small.placement.want("job-2", "true")
    end = await small.placement.ended(second)

    assert (end.reason, end.exit_code) == ("disk-full", 126)
    assert end.message.endswith("No space left on device")
    (small.folder(key) / "0.log").write_bytes(b"")
    third = await small.placement.want("job-3", "true")
    assert (await small.placement.ended(third)).reason == "exited"


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A group whose processes hear no signal, not even SIGKILL, while it is frozen."""
    if os.geteuid() != 0 or not (FREEZER / "cgroup.procs").exists():
        pytest.skip("this host has no cgroup v1 freezer: nothing here cannot be killed")
    group = FREEZER / f"headrace-test-{os.getpid()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")
    with contextlib.suppress(OSError):
        group.rmdir()


async def test_what_cannot_be_killed_keeps_its_device_until_it_is_gone(
    node: Node, freezer: Path
) -> None:
    key = await node.placement.want("job-1", "sleep", "1000")
    await node.placement.started(key)
    worker = node.intent(key).pids[0]
    (freezer / "cgroup.procs").write_text(str(worker))
    (freezer / "freezer.state").write_text("FROZEN")

    await node.placement.stop(key, grace_s=0)
    await until(lambda: is_killed(worker), "it is killed")
    shim = node.shim(key)
    await node.kill_agent()
    await node.start()
    await node.ready()
    assert node.placement.end_of(key) is None
    assert node.placement.running == (tuple(key),)

    (freezer / "freezer.state").write_text("THAWED")
    assert (await node.placement.ended(key)).reason == "stopped"
    assert not kernel.start_time(shim)


def is_killed(pid: int) -> bool:
    """Whether SIGKILL waits for the process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    pending = int(lines["SigPnd"], 16) | int(lines["ShdPnd"], 16)
    return bool(pending >> (signal.SIGKILL - 1) & 1)


@contextlib.contextmanager
def somebody_else() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(("sleep", "1000"), start_new_session=True) as innocent:
        yield innocent
        innocent.kill()


async def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(node: Node) -> None:
    key = await node.placement.want("job-1", "sleep", "1000")
    await node.placement.started(key)
    intent = node.folder(key) / "intent.json"
    shim, worker = node.shim(key), node.intent(key).pids[0]
    with somebody_else() as innocent:
        await node.kill_agent()
        kill(shim)
        await until(lambda: not kernel.start_time(worker), "the worker dies with its shim")
        text = intent.read_text()
        for pid in (shim, worker):
            text = text.replace(str(pid), str(innocent.pid))
        intent.write_text(text)

        await node.start()

        assert (await node.placement.ended(key)).reason == "lost"
        assert innocent.poll() is None


async def test_a_line_of_a_hundred_megabytes_is_kept_within_its_limit(node: Node) -> None:
    script = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last; sleep 6"
    key = await node.placement.want("job-1", SH, "-c", script)
    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 0)
    log = node.folder(key) / "0.log"
    assert log.stat().st_size == 100_000_006
    assert log.stat().st_blocks * 512 <= node.output_bytes_max + 65_536
    tail = await node.placement.logs(key, offset=100_000_001)
    assert tail.data == b"last\n"


@pytest.fixture
async def fleet(tmp_path: Path, own_nats: NatsServer) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, own_nats.url)
    try:
        await fleet.start()
        yield fleet
    finally:
        await fleet.close()
    assert fleet.violations() == []


@in_network
@pytest.mark.parametrize("ahead_us", [YEAR_US, -YEAR_US, 3_600_000_000, -3_600_000_000])
async def test_a_wall_clock_that_jumps_ends_no_lease(fleet: Fleet, ahead_us: int) -> None:
    await fleet.submit_job("a", UNTIL_TOLD, REPLACE_AFTER_S)
    node, attempt = await fleet.started("a")
    renewed = renewed_ns(fleet.nodes[node])

    fleet.clock_ahead_us = ahead_us
    await fleet.submit_job("b", UNTIL_TOLD, REPLACE_AFTER_S)
    other, _ = await fleet.started("b")
    fleet.nodes[other].network.cut()
    await fleet.until(lambda: fleet.host.state.machines[other].silent, "one is silent")
    await fleet.until(lambda: renewed_ns(fleet.nodes[node]) > renewed + 10**9, "a new lease")
    assert not fleet.events(AttemptExpired)
    fleet.nodes[other].network.heal()
    await fleet.until(lambda: not fleet.host.state.machines[other].silent, "it is heard")

    for job, where, number in (("a", node, attempt), ("b", other, 1)):
        (fleet.folder_of(where, job, number) / "work" / "go").touch()
        await fleet.until(lambda job=job: fleet.has_ended(job), "it ends")
        assert fleet.ran(job) == ["start 1", "end 1"]


def renewed_ns(machine: Machine) -> int:
    return int((machine.dir / "lease").read_bytes().split()[1])


@in_network
async def test_a_second_machine_with_a_nodes_name_gets_nothing_to_run(fleet: Fleet) -> None:
    await fleet.submit_job("a", UNTIL_TOLD)
    node, _ = await fleet.started("a")
    machine = fleet.nodes[node]
    joined = len(fleet.events(NodeJoined))

    with machine.impostor() as impostor:
        said = impostor.said
        await fleet.until(lambda: b"another agent" in said.read_bytes(), "it is refused")
        assert len(fleet.events(NodeJoined)) == joined
        (fleet.folder_of(node, "a", 1) / "work" / "go").touch()
        await fleet.until(lambda: fleet.has_ended("a"), "the job ends")
        assert impostor.attempts() == []

    assert fleet.ran("a") == ["start 1", "end 1"]
