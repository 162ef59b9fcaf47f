"""Who is kept from a device: planned for every kind of host, tried on what this one offers."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node_agent.conftest import offered
from tests.node_agent.rig import Node

from headrace.events.gangs import Share
from headrace.node_agent.devices.static import Described, StaticDevices
from headrace.node_agent.isolation import Limits, plan_of
from headrace.node_agent.isolation.cgroups import Cgroup1, Cgroup2
from headrace.node_agent.supervision import device_filter
from headrace.node_agent.supervision.confinement import kill, pids_in

SH = "/bin/sh"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")


def test_what_is_denied_is_told_to_a_program_in_version_2_and_is_in_the_record() -> None:
    limits = Limits(denied=["c 195:3"])

    plan = plan_of(Cgroup2("/base"), "j", limits, None)
    assert (plan["level"], plan["filter"]) == ("cgroup2+devices", ["/base/j", ["c 195:3"]])
    unable = plan_of(Cgroup2("/base", keeps_devices=False), "j", limits, None)
    assert (unable["level"], unable["filter"]) == ("cgroup2", None)
    groups = Cgroup1({"devices": "/d", "pids": "/p"}, keeps_devices=False)
    assert [folder for folder, _ in plan_of(groups, "j", limits, None)["groups"]] == ["/p/j"]


@pytest.mark.parametrize("confined", ["best", "v2"], indirect=True)
@as_root
async def test_a_worker_cannot_open_the_devices_it_was_not_given(
    confined: Node, tmp_path: Path
) -> None:
    for number, minor in enumerate((5, 7)):  # as /dev/zero and /dev/full
        os.mknod(tmp_path / f"chip{number}", 0o666 | stat.S_IFCHR, os.makedev(1, minor))
    chips = Described(
        model="Chip", count=2, memory="1GB", environment="CHIPS", file=f"{tmp_path}/chip{{}}"
    )
    confined.devices = lambda: StaticDevices(chips, "n1")
    confined.grant_no_namespaces()  # so that its groups alone keep it from them
    await confined.kill_agent()
    await confined.start()
    await confined.ready()
    script = f"cd {tmp_path}; for chip in chip*; do true < $chip && echo $chip; done"

    given = (Share(device="static-n1-1"),)
    one = await confined.placement.want("job-1", SH, "-c", script, shares=given)
    none = await confined.placement.want("job-2", SH, "-c", script, gpus=0)

    for key, opened in ((one, ["chip1"]), (none, [])):
        await confined.placement.ended(key)
        said = (await confined.placement.logs(key)).data.decode().splitlines()
        assert [line for line in said if line.startswith("chip")] == opened
        assert sum("Operation not permitted" in line for line in said) == 2 - len(opened)
        assert (
            confined.placement.of(key)[0].isolation == f"{confined.isolation.level}+account+devices"
        )


@pytest.fixture
def group2() -> Iterator[str]:
    """A group of version 2 that has one program already, on any host that grants it."""
    isolation = offered("v2")
    assert isinstance(isolation, Cgroup2)
    device_filter.attach(isolation.base, ["c 1:3"])
    yield isolation.base
    os.rmdir(isolation.base)


def test_a_group_of_version_2_is_killed_at_once_with_all_that_it_forks(group2: str) -> None:
    forks = f"echo $$ > {group2}/cgroup.procs; while :; do (setsid env -i {SH} -c : &); done"
    bomb = subprocess.Popen([SH, "-c", forks])
    while bomb.pid not in pids_in([group2]):
        assert bomb.poll() is None

    kill([group2, "/no/such/group"])

    assert bomb.wait() == -signal.SIGKILL
    while pids_in([group2]):  # nobody is left to fork; the last ones are only to be reaped
        pass


def test_a_program_keeps_a_group_of_version_2_from_devices(group2: str) -> None:
    device_filter.attach(group2, ["b 7:0", "c 1:7"])
    script = "for name in null full zero; do true < /dev/$name && echo $name; done"

    enter = f"echo $$ > {group2}/cgroup.procs; {script}"
    inside = subprocess.run([SH, "-c", enter], capture_output=True, text=True, check=False)
    outside = subprocess.run([SH, "-c", script], capture_output=True, text=True, check=False)

    assert inside.stdout.split() == ["zero"]
    assert inside.stderr.count("Operation not permitted") == 2
    assert outside.stdout.split() == ["null", "full", "zero"]
