"""Workers in containers of a real engine: how they start, end, are ended and survive."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest
from tests.containers.engines import IMAGE, DockerEngine
from tests.node_agent.rig import Node, until

from headrace.node_agent.containers import plan
from headrace.node_agent.isolation.accounts import Accounts
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.supervision import tree

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120)]

SH = "/bin/sh"
FOREVER = (SH, "-c", "echo up; exec sleep 3600")


def containers_of(engine: DockerEngine, node: Node) -> list[str]:
    with closing(engine.client()) as client:
        found = client.api.containers(all=True, filters={"label": plan.label_of(node.dir)})
        return [container["Names"][0] for container in found]


async def wrote(node: Node, key: AttemptKey, text: bytes) -> None:
    """Wait until the worker's output has this in it."""
    file = node.folder(key) / "0.log"
    await until(lambda: file.exists() and text in file.read_bytes(), f"{text!r} in {file}")


async def test_a_command_that_ends_well_is_reported_started_then_exited(
    node: Node, engine: DockerEngine
) -> None:
    key = await node.placement.want("hello-7qk2", "echo", "from the image", image=IMAGE)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("exited", 0, "")
    assert end.isolation == "docker"
    assert [report.what for report in node.placement.of(key)] == ["started", "exited"]
    assert (await node.placement.logs(key)).data == b"from the image\n"
    assert node.journal_lines(key) == ["start", "end"]
    assert containers_of(engine, node) == []


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("exit 7", 7, "exit code 7"),
        ("kill -9 $$", 137, "killed by signal 9 (Killed)"),
    ],
)
async def test_the_exit_code_is_the_commands(
    node: Node, script: str, code: int, message: str
) -> None:
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("exited", code, message)


@pytest.mark.parametrize(
    ("command", "image", "code", "words"),
    [
        (("no-such-command",), IMAGE, 127, ("no-such-command", "No such file")),
        (("true",), "127.0.0.1:9/nothing/here:1", 126, ("cannot be pulled", "refused")),
    ],
)
async def test_what_cannot_be_started_says_why(
    node: Node, command: tuple[str, ...], image: str, code: int, words: tuple[str, ...]
) -> None:
    key = await node.placement.want("job-1", *command, image=image)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("start-failed", code)
    assert image in end.message
    assert all(word in end.message for word in words), end.message


async def test_a_worker_has_what_one_beside_it_has(node: Node) -> None:
    script = (
        "pwd; echo $HEADRACE_JOB_ID $RANK $CUDA_VISIBLE_DEVICES $GREETING; echo $PATH;"
        " echo made > $HEADRACE_OUTPUT_DIR/made; echo kept > kept"
    )
    env = {"GREETING": "hé\nllo"}
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE, gpus=2, env=env)

    end = await node.placement.ended(key)

    folder, said = node.folder(key), (await node.placement.logs(key)).data.decode()
    devices = ",".join(share.device for share in node.intent(key).shares)
    assert end.exit_code == 0
    assert said.splitlines()[0] == str(folder / "work")
    assert f"job-1 0 {devices} hé llo" in said
    assert "/opt/image/bin" in said
    assert (folder / "output" / "made").read_text() == "made\n"
    assert (folder / "work" / "kept").read_text() == "kept\n"


async def test_a_worker_is_its_users_account_and_gains_no_rights(node: Node) -> None:
    node.accounts = Accounts(jobs_user="nobody")
    await node.kill_agent()
    await node.start()
    await node.ready()
    script = "id -u; echo mine > kept; grep -E 'CapEff|NoNewPrivs' /proc/self/status"
    script = script.replace("grep -E 'CapEff|NoNewPrivs'", "cat")
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)

    end = await node.placement.ended(key)

    said = (await node.placement.logs(key)).data.decode()
    assert end.exit_code == 0, said
    assert said.splitlines()[0] == "65534"
    assert "CapEff:\t0000000000000000" in said
    assert "NoNewPrivs:\t1" in said


async def test_setup_runs_before_the_command_and_what_it_installs_stays(node: Node) -> None:
    setup = (SH, "-c", "echo 'by setup' > /installed")
    key = await node.placement.want("job-1", "cat", "/installed", image=IMAGE, setup=setup)

    await node.placement.ended(key)

    assert (await node.placement.logs(key)).data == b"by setup\n"


async def test_a_setup_that_fails_is_said_to_be_that(node: Node) -> None:
    key = await node.placement.want("job-1", "true", image=IMAGE, setup=(SH, "-c", "exit 5"))

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("start-failed", 5, "setup: exit code 5")


async def test_a_worker_that_is_stopped_learns_why_and_has_its_grace(node: Node) -> None:
    script = 'trap "cat $HEADRACE_STOP_REASON_FILE; echo; exit 3" TERM; echo up; while :; do sleep 0.1; done'
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"up")

    await node.placement.stop(key, "reclaimed", grace_s=60)
    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("stopped", 3, "stopped: reclaimed")
    assert b"reclaimed\n" in (await node.placement.logs(key)).data


async def test_a_worker_that_does_not_end_is_made_to(node: Node) -> None:
    script = 'trap "" TERM; echo up; while :; do sleep 0.1; done'
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"up")
    marker = node.intent(key).marker

    await node.placement.stop(key, "reclaimed", grace_s=1)
    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("stopped", 137)
    assert tree.of_attempt(marker, [], []) == []


async def test_a_worker_ends_when_its_time_is_over(node: Node) -> None:
    key = await node.placement.want("job-1", *FOREVER, image=IMAGE, max_duration_s=1)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("stopped", 124, "max_duration reached")


async def test_who_runs_out_of_memory_reads_its_limit(node: Node) -> None:
    script = "dd if=/dev/zero of=/dev/null bs=200M count=1"
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE, memory_bytes=32 * 2**20)

    end = await node.placement.ended(key)

    assert end.reason == "oom"
    assert end.message == "out of memory: its limit is 32 MiB (resources.memory), held by docker"


async def test_shared_memory_is_as_large_as_was_asked(node: Node) -> None:
    script = "dd if=/dev/zero of=/dev/shm/all bs=1M count=90 2>/dev/null; wc -c < /dev/shm/all"
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE, shm_bytes=80 * 2**20)

    await node.placement.ended(key)

    assert (await node.placement.logs(key)).data == b"83886080\n"


async def test_an_agent_that_returns_adopts_what_runs_and_loses_none_of_its_output(
    node: Node,
) -> None:
    script = (
        "n=0; while [ $n -lt 4000 ]; do echo line $n; n=$((n+1)); done; echo all; exec sleep 3600"
    )
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"line 100\n")

    await node.kill_agent()
    await node.start()
    await node.ready()
    await wrote(node, key, b"all")
    await node.placement.stop(key)
    end = await node.placement.ended(key)

    lines = (node.folder(key) / "0.log").read_text().splitlines()
    assert lines == [f"line {n}" for n in range(4000)] + ["all"]
    assert end.message == "stopped: cancelled"
    assert [report.what for report in node.placement.of(key)] == ["started", "exited"]


async def test_an_end_that_no_agent_saw_is_not_lost(node: Node, engine: DockerEngine) -> None:
    script = "echo up; while [ ! -e go ]; do sleep 0.1; done; echo done; exit 9"
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"up")

    await node.kill_agent()
    (node.folder(key) / "work" / "go").touch()
    pid = node.intent(key).pids[0]
    await until(lambda: not os.path.exists(f"/proc/{pid}"), "its end")
    await node.start()
    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 9)
    assert (await node.placement.logs(key)).data == b"up\ndone\n"
    assert containers_of(engine, node) == []


async def test_a_container_that_an_operator_removes_is_lost_and_not_an_exit(
    node: Node, engine: DockerEngine
) -> None:
    key = await node.placement.want("job-1", *FOREVER, image=IMAGE)
    await wrote(node, key, b"up")

    with closing(engine.client()) as client:
        client.containers.get(plan.name_of(node.dir, key)).remove(force=True)
    end = await node.placement.ended(key)

    assert (end.reason, end.message) == ("lost", "its container was removed")


async def test_a_container_of_nobodys_is_removed(node: Node, engine: DockerEngine) -> None:
    await node.kill_agent()
    labels = {plan.LABEL_FOLDER: str(node.dir), plan.LABEL_JOB: "old-1"}
    labels |= {plan.LABEL_ATTEMPT: "1", plan.LABEL_RANK: "0"}
    with closing(engine.client()) as client:
        client.containers.run(
            IMAGE, entrypoint="sleep", command="3600", labels=labels, detach=True,
            network_mode="host",
        )  # fmt: skip
    assert containers_of(engine, node)

    await node.start()
    await node.ready()

    await until(lambda: not containers_of(engine, node), "nobody's container is gone")


async def test_an_engine_that_is_killed_and_comes_back_costs_nothing(
    node: Node, engine: DockerEngine
) -> None:
    script = "n=0; while [ ! -e go ]; do echo line $n; n=$((n+1)); sleep 0.01; done; exit 4"
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"line 10\n")

    engine.stop(signal.SIGKILL)
    engine.start()
    seen = len((node.folder(key) / "0.log").read_bytes())
    await until(lambda: len((node.folder(key) / "0.log").read_bytes()) > seen, "more output")
    (node.folder(key) / "work" / "go").touch()
    end = await node.placement.ended(key)

    lines = (node.folder(key) / "0.log").read_text().splitlines()
    assert (end.reason, end.exit_code) == ("exited", 4)
    assert lines == [f"line {n}" for n in range(len(lines))]


async def test_a_worker_ends_by_its_fence_when_agent_and_lease_are_gone(node: Node) -> None:
    key = await node.placement.want("job-1", *FOREVER, image=IMAGE, replace_after_s=4, grace_s=1)
    await wrote(node, key, b"up")
    marker = node.intent(key).marker

    await node.kill_agent()

    await until(lambda: not tree.of_attempt(marker, [], []), "its processes are gone")
    assert (node.folder(key) / "stop-reason").read_text() == "disconnected"


async def test_the_operators_last_word_ends_containers_too(
    node: Node, engine: DockerEngine
) -> None:
    key = await node.placement.want("job-1", *FOREVER, image=IMAGE)
    await wrote(node, key, b"up")
    marker = node.intent(key).marker

    await node.close()

    assert tree.of_attempt(marker, [], []) == []
    assert containers_of(engine, node) == []
