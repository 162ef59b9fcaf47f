"""Real workers that leave simulated GPUs and come back, under agents that come and go."""

from __future__ import annotations

import sys

import msgspec
import pytest
from tests.node_agent.placement_twin import until
from tests.node_agent.rig import kill

from headrace.events.gangs import Share
from headrace.node_agent.devices.simulated import uuid_of
from headrace.node_agent.pausing import CHECKPOINTED, RUNNING
from headrace.node_agent.pausing.record import Record, read, write
from headrace.node_agent.pausing.simulated import SimulatedDriver
from headrace.node_agent.supervision import kernel, tree

LOOP = "import itertools\nfor n in itertools.count(): print(n); __import__('time').sleep(0.01)"
COUNTS = (sys.executable, "-S", "-u", "-c", LOOP)
SAVES = (
    "/bin/bash",
    "-c",
    "trap 'cat $HEADRACE_STOP_REASON_FILE; echo saved; exit 0' USR1; echo up; while :; do sleep 0.02; done",
)


@pytest.fixture
async def running(node):
    """A node whose driver can, and a worker that counts."""
    await with_driver(node)
    key = await node.placement.want("counts", *COUNTS)
    await node.placement.started(key)
    await until(lambda: (node.folder(key) / "0.log").stat().st_size, "it counts")
    return node, key


async def with_driver(node):
    """Have the node's agent followed by one whose driver can."""
    await node.kill_agent()
    node.driver = SimulatedDriver(node.dir)
    await node.start()
    await node.ready()


def pids_of(node, key):
    return tree.descendants(node.shim(key))


def frozen(node, key):
    states = {fields[0] for pid in pids_of(node, key) if (fields := kernel.stat(pid))}
    return states == {b"T"}


async def written(node, key):
    return (await node.placement.logs(key, offset=0)).data


async def test_a_paused_worker_does_not_run_and_goes_on_as_the_same_process(running):
    node, key = running
    before = pids_of(node, key)

    locked = await node.placement.move(key, "locked")
    paused = await node.placement.move(key, "paused")

    assert (locked.what, paused.what) == ("locked", "paused")
    assert frozen(node, key)
    said = await written(node, key)
    assert {node.driver.state(pid) for pid in before} == {CHECKPOINTED}
    assert await written(node, key) == said
    resumed = await node.placement.move(key, "running")
    assert resumed.what == "resumed"
    assert pids_of(node, key) == before
    await until(lambda: (node.folder(key) / "0.log").stat().st_size > len(said), "it goes on")
    assert node.journal_lines(key) == ["start", "pause", "resume"]


async def test_it_may_come_back_to_another_gpu_and_then_back_again(running):
    node, key = running
    other = (Share(device=uuid_of("n1", 5)),)
    await node.placement.move(key, "locked")
    await node.placement.move(key, "paused")

    resumed = await node.placement.move(key, "running", shares=other)

    assert resumed.what == "resumed"
    assert read(node.folder(key)).devices == (uuid_of("n1", 5),)


async def test_a_driver_that_cannot_migrate_breaks_what_is_sent_elsewhere(running):
    node, key = running
    node.driver._can = ("checkpoint",)
    await node.placement.move(key, "locked")
    await node.placement.move(key, "paused")

    answer = await node.placement.move(key, "running", shares=(Share(device=uuid_of("n1", 5)),))

    assert (answer.what, answer.broken) == ("pause_failed", True)
    assert "it cannot go to other GPUs" in answer.message


@pytest.mark.parametrize("step", ["lock", "checkpoint"])
async def test_a_worker_that_cannot_leave_runs_on_and_says_why(running, step):
    node, key = running
    node.driver.fails = [step]
    phases = ("locked", "paused") if step == "checkpoint" else ("locked",)

    answers = [await node.placement.move(key, phase) for phase in phases]

    assert answers[-1].what == "pause_failed"
    assert not answers[-1].broken
    assert step in answers[-1].message
    assert {node.driver.state(pid) for pid in pids_of(node, key)} == {RUNNING}
    assert not frozen(node, key)


async def test_an_agent_killed_between_lock_and_checkpoint_is_followed_by_one_that_ends_it(running):
    node, key = running
    await node.placement.move(key, "locked")
    await node.kill_agent()
    folder, at = node.folder(key), node.placement.position + 1
    write(folder, msgspec.structs.replace(read(folder), phase="paused", phase_at=at, done=False))
    wanted = node.placement.wanted[key]
    node.placement.wanted[key] = msgspec.structs.replace(wanted, phase="paused", phase_at=at)
    node.placement.position = at

    await node.start()

    assert (await node.placement.moved(key, at)).what == "paused"
    assert frozen(node, key)


async def test_what_was_done_while_nobody_could_be_told_is_told_once(running):
    node, key = running
    await node.placement.move(key, "locked")
    node.placement.answers = False
    at = node.placement.position + 1
    node.placement.position = at
    wanted = node.placement.wanted[key]
    node.placement.wanted[key] = msgspec.structs.replace(wanted, phase="paused", phase_at=at)
    await node.placement.tell()
    await until(lambda: frozen(node, key), "it is paused")
    await node.kill_agent()
    node.placement.answers = True

    await node.start()

    assert (await node.placement.moved(key, at)).what == "paused"
    assert [r.asked_at for r in node.placement.of(key) if r.what == "paused"] == [at]


async def test_a_paused_worker_that_is_to_end_ends_without_touching_its_gpu_again(running):
    node, key = running
    await node.placement.move(key, "locked")
    await node.placement.move(key, "paused")
    node.driver.fails = ["restore", "unlock"]

    await node.placement.stop(key, grace_s=0)

    assert (await node.placement.ended(key)).reason == "stopped"
    assert node.journal_lines(key) == ["start", "pause", "end"]


async def test_a_paused_worker_that_is_killed_is_lost(running):
    node, key = running
    await node.placement.move(key, "locked")
    await node.placement.move(key, "paused")

    kill(node.shim(key))

    assert (await node.placement.ended(key)).reason == "lost"


async def test_a_worker_saves_itself_at_its_own_signal_and_ends(node):
    await with_driver(node)
    key = await node.placement.want("saves", *SAVES)
    await until((node.folder(key) / "0.log").exists, "it writes")
    await until(lambda: b"up" in (node.folder(key) / "0.log").read_bytes(), "its trap is set")
    await node.placement.move(key, "locked")  # and one that had got that far comes back first

    await node.placement.stop(key, reason="paused", grace_s=20, by="USR1")

    assert (await node.placement.ended(key)).reason == "stopped"
    assert (await written(node, key)).endswith(b"paused\nsaved\n") or (
        await written(node, key)
    ).endswith(b"pausedsaved\n")


async def test_the_time_of_a_paused_worker_stands_still(running):
    node, _ = running
    key = await node.placement.want("limited", *COUNTS, max_duration_s=2)
    await node.placement.started(key)
    await node.placement.move(key, "locked")
    await node.placement.move(key, "paused")
    record = read(node.folder(key))
    assert record.since_ns

    until_ns = kernel.boottime_ns() + 2_200_000_000  # past its deadline
    await until(lambda: kernel.boottime_ns() > until_ns, "its deadline passes")

    assert node.placement.end_of(key) is None
    await node.placement.move(key, "running")
    assert (await node.placement.ended(key)).exit_code == 124


def test_a_folder_that_says_nothing_sensible_says_nothing(tmp_path):
    write(tmp_path, Record(phase="paused", phase_at=3))
    (tmp_path / "pause.json").write_text("{")

    assert read(tmp_path) is None
