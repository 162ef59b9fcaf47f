"""What `headrace doctor` finds on machines of all kinds, and what it says mends them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.open_folders import open_folder

from headrace.doctor import Check, lines
from headrace.events.accounts import BY_USER_NAMESPACES, UNISOLATED
from headrace.node_agent.containers.facts import Facts
from headrace.node_agent.doctor.engine import check_engine
from headrace.node_agent.doctor.gpus import check_gpus
from headrace.node_agent.doctor.host import (
    check_accounts,
    check_cgroups,
    check_clock,
    check_disk,
    check_ports,
    check_way,
    kernel_adjtimex,
)
from headrace.node_agent.isolation.accounts import COUNT, FIRST, Accounts, reserve

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build\n"


class Nvml:
    """NVIDIA's library, as far as it is asked: per GPU its MIG mode now, later, and instances."""

    class NVMLError(Exception):
        """As the library raises it."""

    def __init__(self, *gpus: tuple[int, int, int] | None, broken: str = "") -> None:
        self._gpus, self._broken = gpus, broken

    def nvmlInit(self) -> None:  # noqa: N802
        if self._broken:
            raise self.NVMLError(self._broken)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> tuple[int, int, int] | None:  # noqa: N802
        return self._gpus[index]

    def nvmlDeviceGetMigMode(self, gpu: tuple[int, int, int] | None) -> tuple[int, int]:  # noqa: N802
        if gpu is None:
            raise self.NVMLError("Not Supported")
        return gpu[0], gpu[1]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: tuple[int, int, int]) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(  # noqa: N802
        self, gpu: tuple[int, int, int], index: int
    ) -> int:
        if index >= gpu[2]:
            raise self.NVMLError("Not Found")
        return index


def machine(root: Path, cards: int, driver: str = "") -> Path:
    for index in range(cards):
        device = root / f"sys/bus/pci/devices/0000:0{index}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
    if driver:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(VERSION.format(driver))
    return root


def found(root: Path, nvml: Nvml | None) -> dict[str, tuple[str, str]]:
    return {check.name: (check.health, check.found) for check in check_gpus(root, nvml)}


def test_a_machine_without_gpus_is_a_node_too(tmp_path: Path) -> None:
    assert found(tmp_path, None) == {"driver": ("ok", "no NVIDIA GPU: a node for CPU jobs")}


def test_a_good_machine_is_well(tmp_path: Path) -> None:
    root = machine(tmp_path, 2, "575.57.08")
    assert found(root, Nvml((0, 0, 0), None)) == {
        "driver": ("ok", "575.57.08"),
        "nvml": ("ok", "answers for 2 GPUs"),
        "mig": ("ok", "off"),
    }


def test_mig_with_instances_is_well(tmp_path: Path) -> None:
    root = machine(tmp_path, 1, "575.1")
    assert found(root, Nvml((1, 1, 7)))["mig"] == ("ok", "on GPU 0")


@pytest.mark.parametrize(
    ("cards", "driver", "nvml", "name", "health", "line"),
    [
        (2, "", None, "driver", "failed", "2 NVIDIA GPUs and no loaded driver"),
        (1, "535.1.2", Nvml(None), "driver", "warning", "535.1.2"),
        (1, "575.1", None, "nvml", "failed", "the library's module is not installed"),
        (1, "575.1", Nvml(broken="Driver/library version mismatch"), "nvml", "failed",
         "Driver/library version mismatch"),
        (2, "575.1", Nvml(None), "nvml", "failed", "answers for 1 of 2 GPUs"),
        (1, "575.1", Nvml((0, 1, 0)), "mig", "failed", "a change of mode waits on GPU 0"),
        (1, "575.1", Nvml((1, 1, 0)), "mig", "failed",
         "GPU 0 is in MIG mode and has no instance"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_gpus_is_said_with_its_fix(
    tmp_path: Path, *, cards: int, driver: str, nvml: Nvml | None, name: str, health: str, line: str
) -> None:
    checks = {check.name: check for check in check_gpus(machine(tmp_path, cards, driver), nvml)}
    assert (checks[name].health, checks[name].found) == (health, line)
    assert checks[name].fix


@pytest.mark.parametrize(
    ("files", "choice", "health", "line"),
    [
        (
            {"cgroup.controllers": "cpu memory pids io"}, "auto", "ok",
            "v2: limits hold on a node that joins (not on those that headrace up plays)",
        ),
        ({"cgroup.controllers": "memory"}, "auto", "warning", "v2, without cpu pids"),
        ({"memory/tasks": ""}, "auto", "warning", "v1: limits hold on a node that joins"),
        ({"memory/tasks": ""}, "processes", "warning", "not used: neither memory nor CPU"),
        ({}, "auto", "warning", "none"),
    ],
)  # fmt: skip
def test_the_level_of_isolation_is_found(
    tmp_path: Path, files: dict[str, str], choice: str, health: str, line: str
) -> None:
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    check = check_cgroups(tmp_path, choice)
    assert (check.health, check.found[: len(line)]) == (health, line)


DOCKER = Facts(name="docker", version="28.2", live_restore=True)


@pytest.mark.parametrize(
    ("changes", "gpus", "health", "line"),
    [
        ({}, False, "ok", "docker 28.2"),
        ({"live_restore": False}, False, "warning", "docker 28.2: jobs are lost when it restarts"),
        ({"remapped": True}, False, "warning", "docker 28.2 is rootless: its users are"),
        ({"keeps_output": False}, False, "warning", "docker 28.2 has no log driver `local`"),
        ({}, True, "warning", "docker 28.2 shows GPUs by their device files only"),
        ({"runtimes": ("nvidia", "runc")}, True, "ok", "docker 28.2, GPUs by the NVIDIA runtime"),
        ({"cdi": frozenset({"nvidia.com/gpu=0"})}, True, "ok", "docker 28.2, GPUs by CDI"),
    ],
)
def test_a_container_engine_is_judged_by_what_it_offers(
    tmp_path: Path, changes: dict[str, object], gpus: bool, health: str, line: str
) -> None:
    socket_path = tmp_path / "docker.sock"
    socket_path.touch()
    root = machine(tmp_path, 0, "570.1" if gpus else "")

    async def ask(_address: str) -> Facts:
        return msgspec.structs.replace(DOCKER, **changes)

    check = check_engine(f"unix://{socket_path}", root, ask)

    assert (check.health, check.found[: len(line)]) == (health, line)
    assert bool(check.fix) == (health != "ok")


def test_a_node_without_an_engine_is_a_node_too(tmp_path: Path) -> None:
    assert check_engine("", tmp_path).health == "ok"
    check = check_engine(f"unix://{tmp_path}/docker.sock", tmp_path)
    assert (check.health, "systemctl enable --now docker" in check.fix) == ("warning", True)


def test_a_socket_that_is_no_engines_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        check = check_engine(f"unix://{path}", tmp_path)
    assert (check.health, "\n" in check.found) == ("warning", False)


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root runs jobs as itself")
@pytest.mark.skipif(os.geteuid() != 0, reason="accounts take root")
def test_doctor_tells_whether_the_range_of_accounts_is_free_and_reserved(tmp_path: Path) -> None:
    found = check_accounts(Accounts(), tmp_path)
    assert (found.health, found.fix.split()[1]) == ("warning", f"headrace:{FIRST}:{COUNT}")
    reserve(FIRST, tmp_path)
    assert check_accounts(Accounts(), tmp_path).health == "ok"
    (tmp_path / "passwd").write_text(f"eve:x:{FIRST + 5}:1::/:/bin/sh\n")
    found = check_accounts(Accounts(), tmp_path)
    assert (found.health, found.found.partition(" lies")[0]) == (
        "failed", f"eve ({FIRST + 5}, in {tmp_path}/passwd)",
    )  # fmt: skip


def test_doctor_tells_what_it_means_that_nothing_isolates_jobs() -> None:
    found = check_accounts(Accounts(isolation=UNISOLATED, trusted="admin"))
    assert found.health == "warning"
    assert "admin jobs run here" in found.found
    assert check_accounts(Accounts(isolation=BY_USER_NAMESPACES)).health == "ok"


def test_a_clock_that_nobody_sets_is_a_warning() -> None:
    assert check_clock(lambda: 5).health == "warning"
    assert check_clock(lambda: 0).health == "ok"
    assert kernel_adjtimex() in range(-1, 6), "the kernel answers, or says that it will not"


def test_ports_that_are_taken_or_given_to_others_are_said(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        assert check_ports(port, port + 1, tmp_path).health == "failed"
    kernel = tmp_path / "proc/sys/net/ipv4"
    kernel.mkdir(parents=True)
    (kernel / "ip_local_port_range").write_text("19000\t60999\n")
    (kernel / "ip_local_reserved_ports").write_text("7400,20000-20005\n")
    check = check_ports(20_000, 20_010, tmp_path)
    assert check.health == "warning"
    done, _, also = check.fix.removeprefix("sysctl -w net.ipv4.ip_local_reserved_ports=").partition(
        " "
    )
    assert (done, also) == ("7400,20000-20005,20000-20010", "(and in /etc/sysctl.d)")
    (kernel / "ip_local_reserved_ports").write_text(
        "7400,20000-20010\n"
    )  # as the kernel joins them
    assert check_ports(20_000, 20_010, tmp_path).health == "ok"


def test_a_disk_is_looked_at_where_the_node_will_be(tmp_path: Path) -> None:
    assert str(tmp_path) in check_disk(tmp_path / "not" / "there" / "yet").found


def test_the_way_to_the_platform_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        (check,) = check_way({"head": url})
    assert check.health == "ok"
    (check,) = check_way({"bus": url})
    assert (check.name, check.health) == ("bus", "failed")
    assert "dial out" in check.fix


def test_the_table_has_each_fix_below_what_it_mends() -> None:
    checks = [
        Check(name="disk", health="failed", found="full", fix="make room"),
        Check(name="ports", health="ok", found="20000-20499"),
    ]
    assert list(lines(checks)) == [
        "disk     failed   full",
        "                  fix: make room",
        "ports    ok       20000-20499",
    ]
    assert msgspec.json.decode(msgspec.json.encode(checks), type=list[Check]) == checks


def trial(folder: Path, **env: str) -> Check:
    """What doctor says of the job that it starts for a node in this folder."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace.node_agent", "--doctor", "json"],
        env={**os.environ, "HEADRACE_NODE_DIR": str(folder), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    checks = msgspec.json.decode(done.stdout, type=list[Check])
    return next(check for check in checks if check.name == "job")


def test_doctor_starts_a_real_job_as_its_account_and_shows_it() -> None:
    with open_folder() as folder:
        node_dir = folder / "node"
        check = trial(node_dir)
        account = 2_100_000_001 if os.geteuid() == 0 else os.geteuid()
        assert check.health == "ok", check
        assert f"ran as account {account} and ended well" in check.found
        assert not node_dir.exists(), "nothing of it stays"


def test_doctor_tells_why_a_job_does_not_run_however_well_all_else_looks() -> None:
    check = trial(Path("/proc/nowhere"))
    assert check.health == "failed"
    assert "none can be started" in check.found
