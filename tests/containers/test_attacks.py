"""What a job in a container could try against its node, its engine and others, on a real engine."""

from __future__ import annotations

import grp
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.containers.conftest import lacking, made_engine, node_on
from tests.containers.engines import IMAGE, DockerEngine
from tests.containers.looking import SH, containers_of, wrote
from tests.node_agent.rig import Node

from headrace.events.asked import Mount
from headrace.node_agent.containers.isolation import users_of
from headrace.node_agent.isolation import views
from headrace.node_agent.isolation.accounts import FIRST, Accounts
from headrace.node_agent.isolation.cgroups import TASKS_MAX
from headrace.node_agent.supervision.protocol import STOP_REASON

pytestmark = [
    pytest.mark.containers,
    pytest.mark.security,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(lacking()), reason=f"containers: {lacking()}"),
]

LINKED = "headrace-test-linked"
ACCOUNT = FIRST + 1  # the number that placement gives here
AS_ROOT = "headrace-test-as-root"
LIAR = f"""#!{sys.executable}
import json, os, sys
if "create" in sys.argv:
    path = sys.argv[sys.argv.index("--bundle") + 1] + "/config.json"
    with open(path) as file:
        config = json.load(file)
    config["process"]["user"]["uid"] = 0
    with open(path, "w") as file:
        json.dump(config, file)
os.execvp("runc", ["runc", *sys.argv[1:]])
"""
ATTEMPTS = {
    "mounts": "mount -t tmpfs none /mnt",
    "mounts a control group again": "mount -t cgroup -o devices none /mnt",
    "makes a device": "mknod /tmp/sda b 8 0",
    "makes namespaces": "unshare -Ur true",
    "leaves its root": "chroot / true",
    "writes the kernel's settings": "echo 1 > /proc/sys/kernel/core_pattern",
    "writes to devices' settings": "for f in $(find /sys -type f -perm -2 | head -1); do echo > $f; done; touch /sys/x",
    "asks for a reboot": "echo b > /proc/sysrq-trigger",
    "reads the kernel's memory": 'head -c 1 /proc/kcore | wc -c | tr -d 0 | test -n "$(cat)"',
    "reads others' keys": "test -s /proc/keys",
    "reads firmware": 'ls /sys/firmware/* | head -1 | test -n "$(cat)"',
    "moves out of its control group": "for g in /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs; do echo $$ > $g && exit 0; done; exit 1",
    "signals what is not its own": "kill -9 $OUTSIDE",
    "changes its account": "su -c true",
    "owns what root owns": "chown $(id -u) /bin/busybox || touch /bin/x",
    "reads the node's folder": "cat $NODE_DIR/* $NODE_DIR/../keys/*",
    "speaks with its engine": "nc local:$SOCKET < /dev/null || test -e $SOCKET || test -e /run/docker.sock",
    "raises its limits": "ulimit -n unlimited && ulimit -c unlimited && ulimit -l unlimited",
}  # fmt: skip


async def said(node: Node, key) -> str:
    return (await node.placement.logs(key)).data.decode()


async def test_an_intruder_in_a_container_cannot(
    node: Node, engine: DockerEngine, record_property: pytest.RecordProperty
) -> None:
    lines = [
        f'({attack}) >/dev/null 2>&1 && echo "DONE {name}"' for name, attack in ATTEMPTS.items()
    ]
    env = {
        "OUTSIDE": str(os.getpid()),
        "NODE_DIR": str(node.dir),
        "SOCKET": engine.address.removeprefix("unix://"),
    }
    key = await node.placement.want(
        "job-1", SH, "-c", "\n".join([*lines, "echo tried"]), image=IMAGE, env=env
    )

    end = await node.placement.ended(key)

    record_property("attacks", len(ATTEMPTS))
    record_property("isolation", end.isolation)
    assert await said(node, key) == "tried\n"


async def test_a_container_is_its_jobs_account_on_the_host_whatever_its_image_says(
    node: Node, engine: DockerEngine, tmp_path: Path
) -> None:
    engine.make_image(AS_ROOT, "USER root")
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o777)
    scratch.chmod(0o777)
    script = "echo mine > /scratch/mine; echo up; sleep 1000"
    key = await node.placement.want(
        "job-1", SH, "-c", script, image=AS_ROOT, volumes={"scratch": str(scratch)},
        mounts=(Mount(volume="scratch", path="/scratch"),),
    )  # fmt: skip
    await wrote(node, key, b"up")

    assert {user for pid in node.intent(key).pids for user in users_of(pid)} == {ACCOUNT}
    assert (scratch / "mine").stat().st_uid == ACCOUNT
    assert (scratch / "mine").stat().st_gid == ACCOUNT


async def test_the_record_says_what_holds_a_container(node: Node) -> None:
    key = await node.placement.want("job-1", "true", image=IMAGE)

    end = await node.placement.ended(key)

    engines, limits, *rest = end.isolation.split("+")
    assert engines == "docker"
    assert limits in {"cgroup1", "cgroup2"}
    assert rest == ["account", "devices", "loopback", "namespaces", "seccomp"]
    assert {report.isolation for report in node.placement.of(key)} == {end.isolation}


async def test_a_container_does_not_learn_where_in_the_hosts_groups_it_is(node: Node) -> None:
    key = await node.placement.want("job-1", "cat", "/proc/self/cgroup", image=IMAGE)

    await node.placement.ended(key)

    assert {line.split(":", 2)[2] for line in (await said(node, key)).splitlines()} == {"/"}


async def test_tasks_are_limited_and_shared_memory_counts(node: Node) -> None:
    tasks = "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null || true"
    key = await node.placement.want("job-1", SH, "-c", tasks, image=IMAGE)
    fills = await node.placement.want(
        "job-2", SH, "-c", "dd if=/dev/zero of=/dev/shm/all bs=1M count=90", image=IMAGE,
        memory_bytes=32 * 2**20, shm_bytes=100 * 2**20,
    )  # fmt: skip

    await node.placement.ended(key)

    assert await said(node, key) == f"{TASKS_MAX}\n"
    assert (await node.placement.ended(fills)).reason == "oom"


def devices_of(pid: int) -> list[str]:
    """What the process may open, where groups of version 1 say it."""
    groups = (line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    path = next((path for _, names, path in groups if names == "devices"), "")
    return (
        Path(f"/sys/fs/cgroup/devices{path}/devices.list").read_text().split("\n") if path else []
    )


async def test_a_container_opens_no_device_but_those_every_container_has(
    node: Node, engine: DockerEngine
) -> None:
    key = await node.placement.want("job-1", SH, "-c", "ls /dev; echo up; sleep 1000", image=IMAGE)
    await wrote(node, key, b"up")

    found = set((await said(node, key)).split()) - {"up"}
    assert found == {
        "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout",
        "tty", "urandom", "zero",
    }  # fmt: skip
    assert "a *:* rwm" not in devices_of(node.intent(key).pids[0])


async def test_an_engine_that_runs_a_job_as_somebody_else_is_found_out(
    lying_node: Node, lying_engine: DockerEngine
) -> None:
    key = await lying_node.placement.want("job-1", "sleep", "1000", image=IMAGE)

    end = await lying_node.placement.ended(key)

    assert (end.reason, [report.what for report in lying_node.placement.of(key)]) == (
        "start-failed", ["exited"],
    )  # fmt: skip
    assert "ran as uid 0 of the host" in end.message
    assert "userns-remap" in end.message
    assert containers_of(lying_engine, lying_node) == []


async def test_under_an_engine_that_maps_users_files_still_keep_their_owner(
    remapping_node: Node, tmp_path: Path
) -> None:
    node, scratch = remapping_node, tmp_path / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    key = await node.placement.want(
        "job-1", "touch", "/scratch/mine", image=IMAGE, volumes={"scratch": str(scratch)},
        mounts=(Mount(volume="scratch", path="/scratch"),),
    )  # fmt: skip

    end = await node.placement.ended(key)

    assert end.exit_code == 0, await said(node, key)
    assert (scratch / "mine").stat().st_uid == ACCOUNT
    assert "user-namespaces" not in end.isolation  # beside the host's network there are none


@pytest.mark.parametrize("image", ["", IMAGE])
@pytest.mark.parametrize("which", ["node", "above", "link", "engine"])
async def test_no_volume_shows_the_platforms_own_folders(
    node: Node, tmp_path: Path, image: str, which: str
) -> None:
    (tmp_path / "link").symlink_to(node.dir)
    path = {
        "node": node.dir,
        "above": tmp_path,
        "link": tmp_path / "link",
        "engine": Path(node.hidden[0]),
    }[which]
    key = await node.placement.want(
        "job-1", "ls", "/shown", image=image, volumes={"own": str(path)},
        mounts=(Mount(volume="own", path="/shown"),),
    )  # fmt: skip

    end = await node.placement.ended(key)

    assert end.exit_code == 126
    assert "is the node's own, which no job sees" in end.message


async def test_no_mount_point_is_made_through_a_link_in_a_volume(
    node: Node, tmp_path: Path
) -> None:
    """The engine would make it as root, wherever the link leads."""
    data, closed, scratch = (tmp_path / name for name in ("data", "closed", "scratch"))
    for folder in (data, closed, scratch):
        folder.mkdir()
    (data / "sub").symlink_to("/closed/made-by-root")
    mounts = [
        Mount(volume="data", path="/data"),
        Mount(volume="closed", path="/closed"),
        Mount(volume="scratch", path="/data/sub"),
    ]
    volumes = {"data": str(data), "closed": str(closed), "scratch": str(scratch)}
    key = await node.placement.want(
        "job-1", "true", image=IMAGE, mounts=tuple(mounts), volumes=volumes
    )

    end = await node.placement.ended(key)

    assert list(closed.iterdir()) == []
    assert "nothing can be mounted at /data/sub" in end.message


@pytest.mark.parametrize("way", ["its own file", "another device folder", "the device folder"])
async def test_the_hosts_devices_are_given_to_nobody_by_links_of_an_image(
    node: Node, engine: DockerEngine, tmp_path: Path, way: str
) -> None:
    """The runtime gives what it takes for the job's streams to its account: all but its `/dev/null`. If
    another file is that for it, it gives the host's.
    """
    volume = tmp_path / "data"
    volume.mkdir()
    volume.chmod(0o777)
    (volume / "null").touch(0o666)
    own = str(node.dir / "attempts" / "job-1.1.0" / STOP_REASON)
    link, target, path = {
        "its own file": (own, "/dev/null", "/data"),
        "another device folder": ("/data", "/", "/data/dev"),
        "the device folder": ("/dev", "/data", "/data"),
    }[way]
    engine.make_image(LINKED, links={link: target})
    key = await node.placement.want(
        "job-1", "true", image=LINKED, volumes={"data": str(volume)},
        mounts=(Mount(volume="data", path=path),),
    )  # fmt: skip

    end = await node.placement.ended(key)

    about = os.stat("/dev/null")
    os.chown("/dev/null", 0, 0)  # should it have been given away
    assert (about.st_uid, about.st_gid) == (0, 0)
    if way != "the device folder":  # in the place of which Docker puts one of its own
        assert (end.reason, end.exit_code) == ("start-failed", 126)
        assert f"{link} is a link in it: nothing is mounted through" in end.message
    assert containers_of(engine, node) == []


@pytest.mark.parametrize("how", ["by its group", "by everybody"])
async def test_no_process_reaches_an_engine_that_its_account_may_use(
    node: Node, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A user is mapped to an account in group docker, whose members are root."""
    docker = max(group.gr_gid for group in grp.getgrall() if group.gr_gid < 60_000) + 1
    of_host = os.getgrouplist
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [*of_host(name, group), docker])
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/run") as folder:
        os.chmod(folder, 0o755)
        path = Path(folder, "engine.sock")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            os.chown(path, 0, docker)
            os.chmod(path, 0o660 if how == "by its group" else 0o666)
            node.accounts = Accounts(users={"ada": "nobody"}, engine=str(path))
            if how == "by its group":
                node.grant_no_namespaces()
            else:
                node.views = views.probe(node.dir, [path])
            await node.kill_agent()
            await node.start()
            await node.ready()
            script = (
                f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r}); print('IN')"
            )
            key = await node.placement.want("job-1", "/usr/bin/python3", "-c", script)

            end = await node.placement.ended(key)

            text = await said(node, key)
    assert end.exit_code == 1, text
    assert "IN" not in text
    assert "PermissionError" in text or "ConnectionRefusedError" in text, text


@pytest.fixture
def lying_engine(tmp_path: Path) -> Iterator[DockerEngine]:
    """One whose runtime runs everything as root."""
    runtime = tmp_path / "runtime"
    runtime.write_text(LIAR)
    runtime.chmod(0o755)
    settings = {"runtimes": {"liar": {"path": str(runtime)}}, "default-runtime": "liar"}
    made = made_engine(settings)
    yield made
    made.close()


@pytest.fixture
async def lying_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lying_engine: DockerEngine
) -> AsyncIterator[Node]:
    made = await node_on(lying_engine, tmp_path, monkeypatch)
    yield made
    await made.close()


@pytest.fixture
def remapping_engine(tmp_path: Path) -> Iterator[DockerEngine]:
    """One that maps users, for whose namespaces it has ranges that the host has not."""
    ranges = tmp_path / "ranges"
    ranges.write_text("daemon:1000000000:65536\n")
    made = made_engine({"userns-remap": "daemon"}, {"/etc/subuid": ranges, "/etc/subgid": ranges})
    yield made
    made.close()


@pytest.fixture
async def remapping_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remapping_engine: DockerEngine
) -> AsyncIterator[Node]:
    with closing(remapping_engine.client()) as client:
        assert any("name=userns" in option for option in client.info()["SecurityOptions"])
    made = await node_on(remapping_engine, tmp_path, monkeypatch)
    yield made
    await made.close()
