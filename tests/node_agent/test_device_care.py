"""Real workers on simulated devices: shares are held to, and what happens to a device is told."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest
from tests.node_agent.devices.cases import announced
from tests.node_agent.rig import Node, until

from headrace.events.gangs import Share
from headrace.node_agent import folders, heartbeats
from headrace.node_agent.devices.simulated import SimulatedDevices, uuid_of
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import INTENT, MARKER, REPORTS

GPU = uuid_of("n1", 0)
NAME = '"$HEADRACE_SIMULATED_GPUS/$CUDA_VISIBLE_DEVICES.$(readlink /proc/self/ns/pid).$$"'
HOLD = f"printf %s {{held}} > {NAME}; sleep 1000"
GIB = 2**30


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "SIGNAL_S", 0.1)


def half(name: str, held: int) -> tuple[tuple[str, ...], dict[str, object]]:
    command = (name, "sh", "-c", HOLD.format(held=held))
    return command, {"shares": (Share(device=GPU, milli=500),)}


async def test_who_takes_more_than_its_share_is_ended_and_its_neighbour_is_not(node: Node) -> None:
    (command, of) = half("modest", 30 * GIB)
    modest = await node.placement.want(*command, **of)
    (command, of) = half("greedy", 60 * GIB)
    greedy = await node.placement.want(*command, **of)

    end = await node.placement.ended(greedy)

    assert (end.reason, end.enforcement, end.exit_code) == ("over-share", "watch", 143)
    assert end.message == (
        f"out of memory: it held 60.0 GiB of {GPU}; its share of 0.5 is 40.0 GiB, "
        "enforced by the agent's watch"
    )
    assert node.placement.end_of(modest) is None
    assert node.shim(modest)


async def test_what_a_grandchild_holds_counts_for_its_worker(node: Node) -> None:
    script = f"setsid sh -c '{HOLD.format(held=60 * GIB)}' & sleep 1000"
    shares = (Share(device=GPU, milli=500),)
    key = await node.placement.want("greedy", "sh", "-c", script, shares=shares)

    assert (await node.placement.ended(key)).reason == "over-share"


async def test_the_processes_of_a_worker_in_a_container_are_known(tmp_path: Path) -> None:
    """Its engine has started them, no shim: they carry its mark, or descend from its first one."""
    key, marker = AttemptKey("greedy", 1, 0), "a-mark"
    folder = tmp_path / folders.name_of(key)
    folder.mkdir(parents=True)
    first = await asyncio.create_subprocess_exec(
        *("sh", "-c", "env -i setsid sleep 1000 & sleep 1000"),
        env={"PATH": os.environ["PATH"], MARKER: marker},
    )
    intent = {
        "version": 1, "boot": "b", "pid": 0, "job": key.job, "attempt": 1, "rank": 0,
        "project": "vision", "traceparent": "", "enforcement": "watch", "marker": marker,
        "devices": [f"{GPU}:500"], "executor": folders.DOCKER,
    }  # fmt: skip
    started = {"at_us": 1, "pids": [first.pid]}
    (folder / INTENT).write_bytes(
        msgspec.json.encode(intent) + b"\n" + msgspec.json.encode(started) + b"\n"
    )
    enforcer = Enforcer(SimulatedDevices("simulated:1xH100-80GB", "n1"), tmp_path)
    try:
        await until(lambda: len(list(enforcer.processes_of(key))) == 3, "all three are seen")
        assert first.pid in enforcer.processes_of(key)
    finally:
        for pid in enforcer.processes_of(key):
            os.kill(pid, signal.SIGKILL)
        await first.wait()


async def test_who_runs_out_by_itself_reads_its_share_and_limit(node: Node) -> None:
    shares = (Share(device=GPU, milli=250),)
    script = "echo RuntimeError: out of memory; exit 3"
    key = await node.placement.want("oom", "sh", "-c", script, shares=shares)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 3)
    assert f"out of memory on {GPU}: its share of 0.25 is 20.0 GiB" in end.message


async def test_who_fails_otherwise_reads_of_no_memory(node: Node) -> None:
    shares = (Share(device=GPU, milli=250),)
    key = await node.placement.want("bad", "sh", "-c", "exit 3", shares=shares)

    assert "memory" not in (await node.placement.ended(key)).message


async def test_what_happened_to_a_device_is_told_before_the_end_it_caused(node: Node) -> None:
    key = await node.placement.want("unlucky", "sleep", "1000")
    await node.placement.started(key)
    (node.simulated / "xids").write_text(f"{GPU} 94\n")
    os.kill(node.intent(key).pids[0], signal.SIGKILL)
    await node.placement.ended(key)

    faults = [report for report in node.placement.reports if report.what == "faulted"]
    (fault,) = faults
    assert (fault.device, fault.code, fault.action) == (GPU, 94, "restart")
    assert fault.message == "XID 94: memory error, contained to the program it hit"
    end = node.placement.end_of(key)
    assert end is not None
    assert fault.sequence < end.sequence


async def test_what_happens_to_an_idle_device_is_told_and_forgotten(node: Node) -> None:
    with (node.simulated / "xids").open("a") as file:
        file.write(f"{GPU} 13\n{GPU} 79\n")

    await until(lambda: node.placement.reports, "a report")

    assert [report.code for report in node.placement.reports] == [79]  # the other is the program's
    await until(lambda: not list(node.journal.unrecorded()), "it is in the log")
    assert node.journal.attempts() == []
    assert list(node.journal.lines())[1].report is None


async def test_a_device_that_turns_faulty_is_said_to_be_until_it_is_not(node: Node) -> None:
    def said() -> tuple[bool, str]:
        assert node.placement.node is not None
        device = node.placement.node.devices[0]
        return device.healthy, device.fault

    (node.simulated / f"{GPU}.fault").write_text("it smokes\n")
    await until(lambda: said() == (False, "it smokes"), "the fault")
    (node.simulated / f"{GPU}.fault").unlink()
    await until(lambda: said() == (True, ""), "the mending")


async def test_a_device_that_a_stranger_holds_is_not_offered_until_it_is_let_go(
    node: Node,
) -> None:
    def said() -> tuple[bool, str]:
        assert node.placement.node is not None
        device = node.placement.node.devices[0]
        return device.healthy, device.fault

    key = await node.placement.want("mine", "sh", "-c", HOLD.format(held=8 * GIB))
    worker = node.simulated / announced(GPU, os.getpid())
    reports = node.folder(key) / REPORTS
    await until(lambda: list(reports.glob(f"{GPU}.*")), "the worker holds memory")
    worker.write_text(str(8 * GIB))  # beside a worker nobody is asked who they are
    await node.placement.started(key)
    assert said() == (True, "")

    await node.placement.stop(key, grace_s=0)
    await node.placement.ended(key)
    name = kernel.name_of(os.getpid())
    fault = f"process {os.getpid()} ({name}) holds memory on it and is of no job here"
    await until(lambda: said() == (False, fault), "it is not offered")

    await node.kill_agent()
    await node.start()
    await node.ready()
    assert said() == (False, fault)

    worker.write_text(str(2**20))  # as a monitor does
    await until(lambda: said() == (True, ""), "it is offered again")


@pytest.mark.security
async def test_what_a_job_says_of_devices_ends_no_neighbour_and_faults_none(node: Node) -> None:
    part = (Share(device=GPU, milli=500),)
    victim = await node.placement.want("victim", "sleep", "1000", shares=part)
    await node.placement.started(victim)
    pid = node.intent(victim).pids[0]
    status = kernel.read(f"/proc/{pid}/status", 8_192).decode()
    number = status.partition("NSpid:")[2].partition("\n")[0].split()[-1]
    theirs = f"{os.readlink(f'/proc/{pid}/ns/pid')}.{number}"
    idle = uuid_of("n1", 1)
    closed = node.simulated if os.geteuid() == 0 else ""  # an agent that is root has it alone
    script = f"""
        for folder in "$HEADRACE_SIMULATED_GPUS" {closed}; do
            echo "{GPU} 79" >> "$folder/xids"
            echo smoke > "$folder/{GPU}.fault"
            printf %s {60 * GIB} > "$folder/{GPU}.{theirs}"
            printf %s {60 * GIB} > "$folder/{idle}.{theirs}"
            printf %s {60 * GIB} > "$folder/{idle}.$(readlink /proc/self/ns/pid).$$"
        done
        printf %s {10 * GIB} > {NAME}
        echo said
        sleep 1000
    """
    attacker = await node.placement.want("attacker", "sh", "-c", script, shares=part)
    log = node.folder(attacker) / "0.log"
    await until(lambda: log.exists() and b"said" in log.read_bytes(), "it has said everything")

    again = node.devices()
    held = [(s.device, held) for s in again.sample({}) for _, held in s.processes]
    assert held == [(GPU, 10 * GIB)]  # what it says of itself, on the device that it has
    assert all(device.healthy for device in again.list())
    assert list(node.simulated.iterdir()) == []
    assert [report for report in node.placement.reports if report.what == "faulted"] == []
    assert node.placement.end_of(victim) is None


async def test_caps_are_asked_for_and_the_jobs_own_stand(node: Node) -> None:
    shares = (Share(device=GPU, milli=500),)
    script = "echo $XLA_PYTHON_CLIENT_MEM_FRACTION $HEADRACE_GPU_MEMORY_BYTES"
    asked = await node.placement.want("asked", "sh", "-c", script, shares=shares)
    env = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.1"}
    own = await node.placement.want("own", "sh", "-c", script, shares=shares, env=env)

    assert await _output(node, asked) == f"0.492 {40 * GIB}\n"
    assert await _output(node, own) == f"0.1 {40 * GIB}\n"


async def _output(node: Node, key: AttemptKey) -> str:
    await node.placement.ended(key)
    return (await node.placement.logs(key)).data.decode()
