"""What keeps jobs apart: planned for every kind of host, tried on what this one offers."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
import tempfile
from pathlib import Path

import pytest
from tests.node_agent.rig import Node, kill, until

from headrace.bus.agents import Assignment, Launch
from headrace.node_agent import folders
from headrace.node_agent.devices.choosing import devices_of
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.folders import AGENT_LOCK
from headrace.node_agent.isolation import Limits, Processes, cgroups, plan_of, views
from headrace.node_agent.isolation.cgroups import (
    PROCESSES,
    TASKS_MAX,
    Cgroup1,
    Cgroup2,
    _mounts,
    _own_groups,
    name_of,
    probe,
)
from headrace.node_agent.machine import AttemptKey, Machine, Workplace
from headrace.node_agent.machines import machine_of
from headrace.node_agent.pausing import NoDriver
from headrace.node_agent.settings import NodeSettings
from headrace.node_agent.stopping import stop_all
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.confinement import OOM_SCORE_ADJ, pids_in
from headrace.node_agent.supervision.namespaces import TERMINALS_MAX
from headrace.node_agent.supervision.protocol import ATTEMPTS

SH = "/bin/sh"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
SAME = AttemptKey("same", 1, 0)
NODE = f"headrace-test-{os.getpid()}"
MOUNTINFO = """\
30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
33 25 0:29 / /tmp rw - tmpfs tmpfs rw
"""
OWN = "4:memory:/system.slice/a.service\n3:cpu,cpuacct:/\n0::/system.slice/a.service\n"


def test_every_limit_is_a_file_of_one_group_in_version_2() -> None:
    groups = Cgroup2("/base").groups("j.1.0", Limits(cpu_milli=1500, memory_bytes=2**29))
    assert groups == [
        (
            "/base/j.1.0",
            [
                ("pids.max", str(TASKS_MAX), False),
                ("memory.max", "536870912", True),
                ("memory.swap.max", "0", False),
                ("memory.oom.group", "1", False),
                ("cpu.max", "150000 100000", True),
            ],
        )
    ]
    assert Cgroup2("/base").groups("j", Limits())[0][1] == [("pids.max", str(TASKS_MAX), False)]


def test_each_controller_has_a_group_in_version_1() -> None:
    bases = {name: f"/{name}" for name in ("memory", "cpu", "pids", "devices")}
    limits = Limits(cpu_milli=1, memory_bytes=4096, denied=["c 195:3"])
    assert Cgroup1(bases).groups("j", limits) == [
        (
            "/memory/j",
            [
                ("memory.limit_in_bytes", "4096", True),
                ("memory.memsw.limit_in_bytes", "4096", False),
            ],
        ),
        ("/cpu/j", [("cpu.cfs_quota_us", "1000", True)]),
        ("/pids/j", [("pids.max", str(TASKS_MAX), False)]),
        ("/devices/j", [("devices.deny", "c 195:3 rwm", True)]),
    ]
    assert [folder for folder, _ in Cgroup1(bases).groups("j", Limits())] == ["/pids/j"]


def test_where_only_processes_are_kept_apart_nothing_is_limited_and_the_record_says_so() -> None:
    plan = plan_of(Processes(), "j", Limits(cpu_milli=1, memory_bytes=1), None)
    assert plan == {
        "level": "processes",
        "groups": [],
        "joined": "",
        "oom": "",
        "memory_bytes": 1,
        "account": None,
        "filter": None,
        "mounts": [],
        "view": None,
    }
    assert probe(NODE, PROCESSES).level == "processes"


def test_the_hosts_tables_are_understood() -> None:
    assert _mounts(MOUNTINFO) == {
        "memory": "/sys/fs/cgroup/memory",
        "cpu": "/sys/fs/cgroup/cpu,cpuacct",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
        "rw": "/sys/fs/cgroup/memory",
        "cgroup2": "/sys/fs/cgroup/unified",
    } | {"rw": "/sys/fs/cgroup/cpu,cpuacct"}
    assert _own_groups(OWN) == {
        "memory": "/system.slice/a.service",
        "cpu": "",
        "cpuacct": "",
        "": "/system.slice/a.service",
    }


def test_what_this_host_offers_is_one_of_the_levels() -> None:
    found = probe(NODE)
    assert found.level in {"systemd+cgroup2", "cgroup2", "cgroup1", "processes"}


def existing(folders: list[str]) -> list[str]:
    return [folder for folder in folders if Path(folder).exists()]


async def test_a_worker_runs_in_its_groups_which_go_with_it(confined: Node) -> None:
    key = await confined.placement.want(
        "job-1", SH, "-c", "sleep 1000 & wait", cpu_milli=1000, memory_bytes=2**28
    )
    await confined.placement.started(key)
    intent = confined.intent(key)
    await until(lambda: all(len(pids_in([g])) == 2 for g in intent.groups), "both are in each")
    assert confined.shim(key) not in pids_in(intent.groups)

    await confined.placement.stop(key, grace_s=5)

    await confined.placement.ended(key)
    assert existing(intent.groups) == []
    assert (
        confined.placement.of(key)[0].isolation
        == f"{confined.isolation.level}{confined.kept_apart}"
    )


async def test_what_is_above_the_groups_is_made_anew_where_somebody_removed_it(
    confined: Node,
) -> None:
    """It is empty while nothing runs: any tidying takes it, and no job would start any more."""
    limits = Limits(cpu_milli=1000, memory_bytes=2**28, denied=["c 1:5"])
    tops = {Path(folder).parent for folder, _ in confined.isolation.groups("x", limits)}
    confined.loopback = cgroups.probe_loopback(NODE, confined.isolation)
    await confined.kill_agent()
    await confined.start()
    await confined.ready()
    beside = {Path(confined.loopback)} - tops if confined.loopback else set()
    for top in tops | beside:
        top.rmdir()

    key = await confined.placement.want("job-1", "true", cpu_milli=1000, memory_bytes=2**28)
    end = await confined.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 0), end
    assert all(top.is_dir() for top in tops | beside)
    await confined.close()  # the launcher is in that beside, until it has gone
    for top in beside:
        top.rmdir()


async def test_who_uses_more_memory_than_it_asked_for_ends_with_that_reason(confined: Node) -> None:
    hog = "x = bytearray(200 * 1024 * 1024); print(len(x))"
    memory_bytes = 64 * 1024 * 1024
    key = await confined.placement.want(
        "job-1", sys.executable, "-c", hog, memory_bytes=memory_bytes
    )
    other = await confined.placement.want("job-2", "true", memory_bytes=memory_bytes)

    end = await confined.placement.ended(key)

    assert (end.reason, end.exit_code) == ("oom", 137)
    level = f"{confined.isolation.level}{confined.kept_apart}"
    said = f"out of memory: its limit is 64 MiB (resources.memory), held by {level}"
    assert end.message == said
    assert (await confined.placement.ended(other)).reason == "exited"


async def test_a_fork_bomb_stops_at_the_limit_of_tasks(
    confined: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "TASKS_MAX", 20)
    bomb = """
import os, time
made = 0
try:
    while made < 100:
        if not os.fork():
            time.sleep(1000)
        made += 1
except OSError as error:
    print(made, error.strerror)
"""
    key = await confined.placement.want("job-1", sys.executable, "-c", bomb)

    end = await confined.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 0)
    made, _, why = (await confined.placement.logs(key)).data.decode().strip().partition(" ")
    assert (int(made) <= 20, why) == (True, "Resource temporarily unavailable")


async def test_who_uses_more_cpu_than_it_asked_for_is_throttled(confined: Node) -> None:
    script = "while :; do :; done"
    key = await confined.placement.want("job-1", SH, "-c", script, cpu_milli=100)
    await confined.placement.started(key)
    groups = confined.intent(key).groups

    await until(lambda: any(throttled(group) for group in groups), "it is throttled")


def throttled(group: str) -> int:
    """How often the kernel had its processes wait for their share."""
    with contextlib.suppress(OSError):
        for line in Path(group, "cpu.stat").read_text().splitlines():
            if line.startswith("nr_throttled "):
                return int(line.split()[1])
    return 0


@pytest.mark.security
@pytest.mark.parametrize(
    ("confined", "limits"),
    [("best", {"cpu_milli": 1000, "memory_bytes": 2**28}), ("v2", {})],
    indirect=["confined"],
    ids=["best", "v2"],
)
async def test_a_job_changes_nothing_about_its_own_groups(
    confined: Node, limits: dict[str, int], record_property: pytest.RecordProperty
) -> None:
    script = """
import glob, os
own = {line.strip().split(":", 2)[2] for line in open("/proc/self/cgroup")}
files = ("cgroup.procs", "cgroup.subtree_control", "cgroup.kill", "memory.max", "memory.limit_in_bytes",
         "pids.max", "cpu.max", "cpu.cfs_quota_us", "devices.allow")
done = []
for top in ("/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*")):
    for path in [path for path in own if "/headrace-" in path]:
        folder = f"{top}{path}"
        if not os.path.exists(f"{folder}/cgroup.procs"):
            continue
        print("reaches", folder)
        for file in files:
            try:
                os.chmod(f"{folder}/{file}", 0o666)
                done.append(file)
            except OSError:
                pass
            try:
                with open(f"{folder}/{file}", "r+") as opened:
                    opened.write("1")
                done.append(file)
            except OSError:
                pass
        try:
            os.mkdir(f"{folder}/own")
            done.append("a group of its own")
        except OSError:
            pass
        try:
            done += [name for name in os.listdir(os.path.dirname(folder)) if not folder.endswith("/" + name)]
        except OSError:
            pass
print("done", done)
"""
    key = await confined.placement.want("job-1", sys.executable, "-c", script, **limits)

    end = await confined.placement.ended(key)

    record_property("isolation", end.isolation)
    *reached, done = (await confined.placement.logs(key)).data.decode().splitlines()
    groups = confined.intent(key).groups
    assert groups
    assert {f"reaches {group}" for group in groups} <= set(reached)
    assert done == "done []"


@as_root
@pytest.mark.security
async def test_a_job_sees_no_control_group_but_its_own(confined: Node) -> None:
    other = await confined.placement.want("job-1", "sleep", "1000")
    await confined.placement.started(other)
    groups = confined.intent(other).groups
    assert groups
    script = "cd /sys/fs/cgroup && find . -name 'job-*' && ls -d $GROUPS"
    env = {"GROUPS": " ".join(groups)}
    key = await confined.placement.want("job-2", SH, "-c", script, env=env)

    await confined.placement.ended(key)

    said = (await confined.placement.logs(key)).data.decode().splitlines()
    found = {os.path.basename(line) for line in said if line.startswith("./")}
    assert found == {f"{key.job}.{key.attempt}.{key.rank}"}
    assert [line for line in said if line in groups] == []


@as_root
@pytest.mark.security
async def test_the_terminals_of_a_job_are_its_own_and_limited(node: Node) -> None:
    script = """
import os, sys
near, far = os.openpty()
print(os.ttyname(far), sorted(os.listdir("/dev/pts")))
made = 1
try:
    while made < 5000:
        os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        made += 1
except OSError as error:
    print(made, error.strerror)
"""
    near, far = os.openpty()  # of the machine's, so that there is one
    limited = f"ulimit -n {TERMINALS_MAX + 100}; exec {sys.executable} -c '{script}'"
    key = await node.placement.want("job-1", SH, "-c", limited)
    await node.placement.ended(key)
    os.close(near)
    os.close(far)

    said = (await node.placement.logs(key)).data.decode().splitlines()
    assert said == ["/dev/pts/0 ['0', 'ptmx']", f"{TERMINALS_MAX} No space left on device"]


@as_root
@pytest.mark.security
async def test_what_covers_a_file_is_none_of_the_machines(node: Node) -> None:
    """A change of its owner or its mode, by whoever can, would be one of every process's `/dev/null`."""
    with tempfile.TemporaryDirectory(
        dir="/run"
    ) as folder:  # not in the places that are private anyway
        os.chmod(folder, 0o755)
        secret = f"{folder}/token"
        kernel.write(secret, b"secret")
        await node.kill_agent()
        node.views = views.probe(node.dir, (Path(secret),))
        await node.start()
        await node.ready()
        script = "stat -c '%F, %s bytes, of %u' $0; cat $0"
        key = await node.placement.want("job-1", SH, "-c", script, secret)
        await node.placement.ended(key)

    found, *read = (await node.placement.logs(key)).data.decode().splitlines()
    assert found == "regular empty file, 0 bytes, of 0"
    assert "secret" not in "".join(read)


@pytest.mark.parametrize("confined", ["best", "v2"], indirect=True)
async def test_what_hides_from_its_mark_is_found_in_its_group(confined: Node) -> None:
    script = "(setsid env -i sleep 1000 &); echo on; sleep 1001"
    key = await confined.placement.want("job-1", SH, "-c", script)
    await confined.placement.started(key)
    await until(lambda: len(pids_in(confined.intent(key).groups)) >= 3, "it hides")
    groups = confined.intent(key).groups

    await confined.kill_agent()
    kill(confined.launcher())
    kill(confined.shim(key))
    await confined.start()

    assert (await confined.placement.ended(key)).reason == "lost"
    assert pids_in(groups) == []


async def test_jobs_go_before_the_platform_when_memory_runs_out(node: Node) -> None:
    key = await node.placement.want("job-1", "cat", "/proc/self/oom_score_adj")
    await node.placement.ended(key)

    assert (await node.placement.logs(key)).data == f"{OOM_SCORE_ADJ}\n".encode()
    own = kernel.read("/proc/self/oom_score_adj", 16)
    assert int(own) < OOM_SCORE_ADJ


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_nodes_of_one_name_on_one_machine_have_groups_of_their_own(tmp_path: Path) -> None:
    """As two platforms have them that one machine belongs to, or a platform and its fork."""
    homes = [tmp_path / "ours", tmp_path / "theirs"]
    try:
        for home in homes:
            await run_the_same(home)
        ours, theirs = (groups_of(home) for home in homes)
        if not ours:
            pytest.skip("this host grants no control groups")
        assert not set(ours) & set(theirs)

        assert await asyncio.to_thread(stop_all, homes[0]) == 1
        assert existing([*ours, *map(os.path.dirname, ours)]) == []
        assert {len(pids_in([group])) for group in theirs} == {1}

        homes[1] = homes[1].rename(tmp_path / "moved")
        assert await asyncio.to_thread(stop_all, homes[1]) == 1
        assert existing([*map(os.path.dirname, theirs)]) == []
    finally:
        for home in homes:
            await asyncio.to_thread(stop_all, home)


def test_groups_stay_while_an_agent_may_start_jobs_in_them(tmp_path: Path) -> None:
    (tmp_path / ATTEMPTS).mkdir()
    isolation = probe(name_of(tmp_path))
    bases = [os.path.dirname(folder) for folder, _ in isolation.groups("x", Limits())]
    with (tmp_path / AGENT_LOCK).open("ab") as agent:
        fcntl.flock(agent, fcntl.LOCK_EX)
        stop_all(tmp_path)
        assert existing(bases) == bases
    stop_all(tmp_path)
    assert existing(bases) == []


async def run_the_same(home: Path) -> None:
    """Start on a node called n1 in this folder what every one of them runs."""
    os.mkdir(home, 0o700)
    env = {"HEADRACE_NODE": "n1", "HEADRACE_NODE_DIR": str(home), "HEADRACE_NODE_GPUS": "none"}
    settings = NodeSettings.read(env | {"HEADRACE_NODE_ENGINE": "none"})
    machine = machine_of(settings, Enforcer(devices_of("none", "n1", home), home), NoDriver())
    await machine.open(lambda _key: None)
    assignment = Assignment(
        job="same", attempt=1, rank=0, position=1, project="p", user="u", account=1,
        cpu_milli=1000, memory_bytes=2**28,
    )  # fmt: skip
    machine.start(assignment, Launch(command=("sleep", "1000")), Workplace())
    await until(lambda: is_running(machine), "it runs")
    await machine.close()


def is_running(machine: Machine) -> bool:
    seen = machine.look(SAME)
    assert seen is None or seen.end is None, seen
    return seen is not None and seen.phase == "running"


def groups_of(home: Path) -> list[str]:
    intent = folders.read_intent(home / folders.name_of(SAME))
    assert intent is not None
    return intent.groups
