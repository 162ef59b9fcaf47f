"""What a worker is told, and what nobody else may read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from tests.node_agent.rig import Node, until

from headrace.bus.agents import Assignment, Launch
from headrace.events.gangs import Share
from headrace.node_agent.devices.nvidia_binding import visible
from headrace.node_agent.devices.simulated import uuid_of
from headrace.node_agent.enforcement import Bound
from headrace.node_agent.isolation.accounts import FIRST
from headrace.node_agent.supervision import tree
from headrace.node_agent.supervision.namespaces import TMP
from headrace.node_agent.supervision.protocol import STOP_REASON
from headrace.node_agent.worker_environment import environment_of, processes_of

CANARY = "canary-4f9d2c"
GANG = {
    "HEADRACE_NUM_NODES": "2",
    "HEADRACE_NODE_IPS": "10.0.0.1,10.0.0.2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "20007",
    "HEADRACE_PARAMS": '{"lr":"0.1"}',
}

TOLD = {
    "HEADRACE_JOB_ID": "pretrain-b0c4",
    "HEADRACE_ATTEMPT": "3",
    "HEADRACE_PROJECT": "vision",
    "HEADRACE_NODE_RANK": "1",
    "HEADRACE_NUM_NODES": "2",
    "HEADRACE_NODE_IPS": "10.0.0.1,10.0.0.2",
    "HEADRACE_GPUS_PER_NODE": "2",
    "HEADRACE_RANK": "3",
    "HEADRACE_WORLD_SIZE": "4",
    "HEADRACE_OUTPUT_DIR": "/n/a/output",
    "HEADRACE_STOP_REASON_FILE": "/n/a/stop-reason",
    "HEADRACE_PARAMS": '{"lr":"0.1"}',
    "TRACEPARENT": "00-11111111111111111111111111111111-2222222222222222-01",
    "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "20007",
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "NODE_RANK": "1",
    "GROUP_RANK": "1",
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "2",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "10.0.0.1",
    "PET_MASTER_PORT": "20007",
    "PYTHONUNBUFFERED": "1",
    "HEADRACE_ATTEMPT_KEY": "m1",
}


def _assignment(**changes: object) -> Assignment:
    fields = {
        "job": "pretrain-b0c4",
        "attempt": 3,
        "rank": 1,
        "position": 9,
        "project": "vision",
        "shares": (Share(device="GPU-a"), Share(device="GPU-b")),
        "traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
    }
    return Assignment(**{**fields, **changes})


def _env(assignment: Assignment, launch: Launch, base: dict[str, str]) -> dict[str, str]:
    bound = Bound(facts=visible(assignment.shares), caps={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4"})
    return environment_of(assignment, launch, bound, base=base, folder="/n/a", marker="m1")


def test_a_worker_is_told_who_it_is_in_every_dialect() -> None:
    launch = Launch(command=("train",), env=GANG, processes=2)

    env = _env(_assignment(), launch, {}) | processes_of(_assignment(), launch, "/n/a")[1]

    assert {name: env.get(name) for name in TOLD} == TOLD


def test_a_worker_alone_has_a_world_of_one() -> None:
    launch = Launch(command=("train",))

    told = processes_of(_assignment(rank=0, shares=()), launch, "/n/a")

    assert [(p["RANK"], p["WORLD_SIZE"]) for p in told] == [("0", "1")]
    assert _env(_assignment(shares=()), launch, {})["CUDA_VISIBLE_DEVICES"] == ""


def test_the_job_wins_over_defaults_and_the_machine_but_not_over_facts() -> None:
    env = {"PATH": "/job/bin", "PYTHONUNBUFFERED": "0", "CUDA_VISIBLE_DEVICES": "GPU-other"}
    base = {"PATH": "/node/bin", "HOME": "/home/agent", "HEADRACE_NATS_CREDS": "/secret"}

    told = _env(_assignment(), Launch(command=("train",), env=env), base)

    assert (told["PATH"], told["PYTHONUNBUFFERED"], told["HOME"]) == (
        "/job/bin",
        "0",
        "/home/agent",
    )
    assert told["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert "HEADRACE_NATS_CREDS" not in told


async def test_a_worker_inherits_no_more_than_it_is_told(node: Node) -> None:
    key = await node.placement.want(
        "job-1", "/usr/bin/env", gpus=2, env={"MINE": "1"}, secrets={"TOKEN": CANARY}
    )
    await node.placement.ended(key)

    output = (await node.placement.logs(key)).data.decode()
    env = dict(line.partition("=")[::2] for line in output.splitlines())
    assert (env["MINE"], env["TOKEN"]) == ("1", CANARY)
    assert env["CUDA_VISIBLE_DEVICES"] == f"{uuid_of('n1', 0)},{uuid_of('n1', 1)}"
    assert "HEADRACE_NATS_CREDS" not in env
    assert "VIRTUAL_ENV" not in env
    assert "PYTEST_CURRENT_TEST" not in env


async def test_a_worker_has_only_its_own_descriptors_and_no_core_file(node: Node) -> None:
    script = "ls /proc/self/fd | wc -l; ulimit -c; umask; pwd"
    key = await node.placement.want("job-1", "/bin/sh", "-c", script)
    await node.placement.ended(key)

    descriptors, core, umask, folder = (await node.placement.logs(key)).data.decode().split()
    assert descriptors == "4"  # 0, 1, 2 and the one with which it looks
    assert (core, umask) == ("0", "0077")
    assert Path(folder) == node.folder(key) / "work"


async def test_a_worker_runs_in_the_folder_it_names(node: Node, tmp_path: Path) -> None:
    key = await node.placement.want("job-1", "pwd", workdir=str(tmp_path))
    await node.placement.ended(key)

    assert (await node.placement.logs(key)).data.decode().strip() == str(tmp_path)


async def test_a_task_of_a_sweep_has_a_folder_of_its_own(node: Node) -> None:
    key = await node.placement.want("lr-sweep-k3f9/12", "pwd")
    await node.placement.ended(key)

    assert node.folder(key).name == "lr-sweep-k3f9.12.1.0"
    assert (await node.placement.logs(key)).data.endswith(b"lr-sweep-k3f9.12.1.0/work\n")


@pytest.mark.parametrize("job", ["../up", "a/b", "a.b", "A", "a/1/2", "x" * 80])
async def test_a_job_with_a_name_that_is_no_id_does_not_start(node: Node, job: str) -> None:
    key = await node.placement.want(job, "true")

    end = await node.placement.ended(key)

    assert (end.reason, end.message) == ("start-failed", f"{job!r} is not the id of a job")


async def test_secrets_are_on_no_disk_and_on_no_command_line(node: Node) -> None:
    script = '[ -n "$TOKEN" ] && echo has it; sleep 1000'
    key = await node.placement.want(
        "job-1", "/bin/sh", "-c", script, secrets={"TOKEN": CANARY}, env={"PLAIN": f"{CANARY}-env"}
    )
    log = node.folder(key) / "0.log"
    await until(lambda: log.exists() and log.read_bytes() == b"has it\n", "the worker has it")

    files = [f for f in node.dir.rglob("*") if f.is_file()]
    assert [f for f in files if CANARY.encode() in f.read_bytes()] == []
    told = node.folder(key) / STOP_REASON  # empty, and the one file that its account may read
    of_nobody_else = [f for f in files if f.stat().st_mode & 0o077]
    if os.geteuid() == 0:
        assert (told.stat().st_mode & 0o777, told.stat().st_gid) == (0o640, FIRST + 1)
        assert of_nobody_else == [told]
    else:
        assert of_nobody_else == []
    private = node.folder(key) / TMP  # closed itself; the agent makes mount points in it
    folders = [f for f in [node.dir, *node.dir.rglob("*")] if private not in f.parents]
    folders = [f for f in folders if f not in files]
    assert [f for f in folders if f.stat().st_mode & 0o066] == []
    assert [command for command in _commands() if CANARY.encode() in command] == []


def _commands() -> list[bytes]:
    found = []
    for pid in tree.processes():
        if pid != os.getpid():
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


async def test_newlines_and_every_script_come_through_the_environment(node: Node) -> None:
    value = "first\nsecond\t\"quoted\" 'single' $HOME `x` žluťoučký 🦆 عربي \x01 end"
    key = await node.placement.want("job-1", "printenv", "X", env={"X": value})
    await node.placement.ended(key)

    assert (await node.placement.logs(key)).data.decode() == value + "\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of the worker's own at /etc/hosts takes root")
async def test_peers_go_by_names_that_only_their_gang_knows(node: Node) -> None:
    peers = {
        "HEADRACE_NUM_NODES": "2",
        "HEADRACE_NODE_NAMES": "box-a,box-b",
        "HEADRACE_NODE_IPS": "192.0.2.1,192.0.2.2",
    }
    script = "getent hosts rank-0 box-b localhost | awk '{print $1}'"
    key = await node.placement.want("job-1", "/bin/sh", "-c", script, env=peers)
    await node.placement.ended(key)
    names = (await node.placement.logs(key)).data.decode().split()
    assert names[:2] == ["192.0.2.1", "192.0.2.2"]
    assert names[2] in ("127.0.0.1", "::1")
