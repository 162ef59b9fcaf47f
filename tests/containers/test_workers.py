"""Workers in containers of a real engine: how they start, end and are ended."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.containers.engines import IMAGE, DockerEngine
from tests.containers.looking import FOREVER, SH, containers_of, wrote
from tests.node_agent.rig import Node

from headrace.events.asked import Mount
from headrace.events.gangs import Share
from headrace.node_agent.devices.simulated import uuid_of
from headrace.node_agent.isolation.accounts import Accounts
from headrace.node_agent.supervision import tree

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120)]


async def test_a_command_that_ends_well_is_reported_started_then_exited(
    node: Node, engine: DockerEngine
) -> None:
    key = await node.placement.want("hello-7qk2", "echo", "from the image", image=IMAGE)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("exited", 0, "")
    assert end.isolation.partition("+")[0] == "docker"
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
        " ls -d $HEADRACE_OUTPUT_DIR; echo kept > here; cat here"
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
    assert str(folder / "output") in said
    assert said.endswith("kept\n")


SERVES = "echo up; exec nc -ll -p {0} -e echo served"
ASKS = "nc -w 2 127.0.0.1 {0} < /dev/null"


async def test_its_loopback_ports_are_reached_by_its_own_account_only(node: Node) -> None:
    node.accounts = Accounts(users={"ada": "daemon", "bob": "bin"})
    await node.kill_agent()
    await node.start()
    await node.ready()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = await node.placement.want(
        "job-1", SH, "-c", SERVES.format(port), image=IMAGE, user="ada"
    )
    await wrote(node, serving, b"up")
    said = {}
    for user in ("bob", "ada"):
        asking = await node.placement.want(
            f"asks-{user}", SH, "-c", ASKS.format(port), image=IMAGE, user=user
        )
        end = await node.placement.ended(asking)
        said[user] = (await node.placement.logs(asking)).data
    await node.placement.stop(serving, grace_s=0)
    await node.placement.ended(serving)

    assert "+loopback" in end.isolation
    assert said["ada"] == b"served\n"
    assert b"timed out" in said["bob"]


async def test_who_takes_more_than_its_share_is_ended(node: Node) -> None:
    name = '"$HEADRACE_SIMULATED_GPUS/$CUDA_VISIBLE_DEVICES.$(readlink /proc/self/ns/pid).$$"'
    script = f"printf %s {60 * 2**30} > {name}; sleep 3600"
    shares = (Share(device=uuid_of("n1", 0), milli=500),)
    key = await node.placement.want("greedy", SH, "-c", script, image=IMAGE, shares=shares)

    end = await node.placement.ended(key)

    assert (end.reason, end.enforcement) == ("over-share", "watch")
    assert "it held 60.0 GiB" in end.message


async def test_a_worker_is_its_users_account_and_gains_no_rights(node: Node) -> None:
    node.accounts = Accounts(users={"ada": "nobody"})
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


async def test_volumes_are_where_the_job_wants_them(node: Node, tmp_path: Path) -> None:
    sets, scratch = tmp_path / "mnt" / "sets", tmp_path / "mnt" / "scratch"
    for folder in (sets, scratch):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    (sets / "x").write_text("data\n")
    script = (
        "cat /data/x $HEADRACE_VOLUME_SETS/x; touch /data/y || echo no;"
        " echo new > in/scratch/y; cat $HEADRACE_VOLUME_SCRATCH/y"
    )
    mounts = (
        Mount(volume="sets", path="/data", read_only=True),
        Mount(volume="scratch", path="in/scratch"),
    )
    volumes = {"sets": str(sets), "scratch": str(scratch)}
    key = await node.placement.want(
        "job-1", SH, "-c", script, image=IMAGE, mounts=mounts, volumes=volumes
    )

    end = await node.placement.ended(key)

    said = (await node.placement.logs(key)).data.decode()
    lines = [line for line in said.splitlines() if "Read-only" not in line]
    assert (end.exit_code, lines) == (0, ["data", "data", "no", "new"])
    assert (scratch / "y").read_text() == "new\n"
    assert sorted(path.name for path in sets.iterdir()) == ["x"]


async def test_setup_runs_before_the_command_and_what_it_installs_stays(node: Node) -> None:
    setup = (SH, "-c", "echo 'by setup' > $HOME/installed")
    key = await node.placement.want(
        "job-1", SH, "-c", "cat $HOME/installed", image=IMAGE, setup=setup
    )

    await node.placement.ended(key)

    assert (await node.placement.logs(key)).data == b"by setup\n"


async def test_a_setup_that_fails_is_said_to_be_that(node: Node) -> None:
    key = await node.placement.want("job-1", "true", image=IMAGE, setup=(SH, "-c", "exit 5"))

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("start-failed", 5, "setup: exit code 5")


async def test_a_setup_that_may_not_write_is_told_where_it_may(node: Node) -> None:
    key = await node.placement.want("job-1", "true", image=IMAGE, setup=("touch", "/bin/tool"))

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("start-failed", 1)
    assert end.message.startswith("setup: exit code 1: the job's account writes below $HOME")


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
