"""What `headrace doctor --security` finds on machines of all kinds, and what it says mends it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.doctor import Check
from headrace.events.accounts import BY_USER_NAMESPACES, EVERYBODY, UNISOLATED
from headrace.node_agent.containers.facts import Facts
from headrace.node_agent.doctor import weak_spots
from headrace.node_agent.isolation import cgroups
from headrace.node_agent.isolation.accounts import Accounts

OLD, MIDDLE, NEW = "5.4.0-generic", "5.10.0-30-amd64", "6.12.3+deb13-amd64"
ROOT, USER = ("root", "sockets"), ("user", "sockets")


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder in which nobody else may write: those of tests are open to all accounts."""
    tmp_path.chmod(0o755)
    return tmp_path


def told(check: Check) -> tuple[str, str]:
    assert bool(check.fix) == (check.health != "ok"), check
    return check.name, check.health


def machine(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("granted", "release", "expected"),
    [
        (ROOT, NEW, [("namespaces", "ok"), ("sockets", "ok")]),
        (("root",), OLD, [("namespaces", "ok"), ("sockets", "warning")]),
        (("user",), NEW, [("namespaces", "ok"), ("sockets", "warning")]),
        ((), MIDDLE, [("namespaces", "warning")]),
    ],
)
def test_what_namespaces_a_host_grants_is_said(
    granted: tuple[str, ...], release: str, expected: list[tuple[str, str]]
) -> None:
    checks = weak_spots.check_namespaces(granted, Accounts(isolation=BY_USER_NAMESPACES), release)
    assert [told(check) for check in checks] == expected


def test_everybodys_jobs_without_namespaces_are_a_failure() -> None:
    accounts = Accounts(isolation=UNISOLATED, trusted=EVERYBODY)
    (check,) = weak_spots.check_namespaces((), accounts, NEW)
    assert told(check) == ("namespaces", "failed")
    (check,) = weak_spots.check_namespaces((), Accounts(isolation=UNISOLATED, trusted="a"), NEW)
    assert told(check) == ("namespaces", "warning")


def test_what_mends_abstract_sockets_depends_on_the_kernel() -> None:
    def fix(release: str) -> str:
        return list(weak_spots.check_namespaces(("root",), Accounts(), release))[1].fix

    assert (fix(NEW), fix(MIDDLE)) == ("boot with landlock in lsm=", "Linux 6.12")


def test_open_loopback_is_said_with_what_would_close_it() -> None:
    assert told(weak_spots.check_loopback(is_root=True, is_kept=True)) == ("loopback", "ok")
    check = weak_spots.check_loopback(is_root=True, is_kept=False)
    assert (check.health, "cgroup v2" in check.fix) == ("warning", True)
    check = weak_spots.check_loopback(is_root=False, is_kept=False)
    assert (check.health, "as root" in check.fix) == ("warning", True)


def test_a_trial_of_the_loopback_filter_leaves_nothing() -> None:
    before = set(Path("/sys/fs/cgroup").glob("*/headrace-trial-*"))
    assert cgroups.grants_loopback() in (True, False)
    assert set(Path("/sys/fs/cgroup").glob("*/headrace-trial-*")) == before


@pytest.mark.parametrize(
    ("granted", "file", "is_root", "health"),
    [
        (ROOT, "", True, "ok"),
        (USER, "", False, "ok"),
        ((), "sys__fs__cgroup__devices__tasks", True, "ok"),
        ((), "sys__fs__cgroup__cgroup.controllers", True, "ok"),
        ((), "sys__fs__cgroup__cgroup.controllers", False, "warning"),
        ((), "", True, "warning"),
    ],
)
def test_devices_are_kept_by_namespaces_or_by_groups_of_root(
    tmp_path: Path, *, granted: tuple[str, ...], file: str, is_root: bool, health: str
) -> None:
    root = machine(tmp_path, **({file: ""} if file else {}))
    check = weak_spots.check_devices(granted, root, is_root=is_root)
    assert told(check) == ("devices", health)


def test_limits_of_an_agent_that_is_not_root_are_not_taken_for_granted(tmp_path: Path) -> None:
    root = machine(tmp_path, **{"sys__fs__cgroup__cgroup.controllers": "cpu memory pids"})
    assert told(weak_spots.check_limits(root, "auto", is_root=True)) == ("cgroup", "ok")
    assert told(weak_spots.check_limits(root, "auto", is_root=False)) == ("cgroup", "warning")


def test_an_old_kernel_is_said_with_what_it_lacks() -> None:
    assert told(weak_spots.check_kernel(NEW)) == ("kernel", "ok")
    middle, old = weak_spots.check_kernel(MIDDLE), weak_spots.check_kernel(OLD)
    assert (middle.health, "5.12" in middle.found, "5.6" in middle.found) == (
        "warning",
        True,
        False,
    )
    assert (old.health, "5.12" in old.found, "5.6" in old.found) == ("warning", True, True)


def test_links_to_others_files_are_said_to_be_allowed(tmp_path: Path) -> None:
    on = {"proc__sys__fs__protected_hardlinks": "1\n", "proc__sys__fs__protected_symlinks": "1\n"}
    assert told(weak_spots.check_links(machine(tmp_path, **on))) == ("links", "ok")
    off = machine(tmp_path, proc__sys__fs__protected_hardlinks="0\n")
    check = weak_spots.check_links(off)
    assert told(check) == ("links", "warning")
    assert check.fix.startswith("sysctl -w fs.protected_hardlinks=1 (")


@pytest.mark.parametrize(("scope", "health"), [("1\n", "ok"), ("2", "ok"), ("0", "warning")])
def test_tracing_within_an_account_is_said(tmp_path: Path, scope: str, health: str) -> None:
    root = machine(tmp_path, proc__sys__kernel__yama__ptrace_scope=scope)
    assert told(weak_spots.check_tracing(root)) == ("tracing", health)


def test_a_kernel_without_yama_lets_an_account_trace(tmp_path: Path) -> None:
    assert told(weak_spots.check_tracing(tmp_path)) == ("tracing", "warning")


def test_an_engine_beside_workspaces_is_a_weak_spot_and_an_open_one_a_failure(
    tmp_path: Path,
) -> None:
    assert [told(c) for c in weak_spots.check_engine_socket("")] == [("engine", "ok")]
    socket = tmp_path / "docker.sock"
    socket.touch()
    socket.chmod(0o660)
    address = f"unix://{socket}"
    expected = [("containers", "warning")]
    assert [told(c) for c in weak_spots.check_engine_socket(address)] == expected
    socket.chmod(0o666)
    expected = [("engine", "failed"), ("containers", "warning")]
    assert [told(c) for c in weak_spots.check_engine_socket(address)] == expected


def test_an_account_that_is_as_good_as_root_runs_no_jobs_unnoticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (check,) = weak_spots.check_mapped({"ada": "root"})
    assert told(check) == ("mapped", "failed")
    (check,) = weak_spots.check_mapped({"ada": "nobody-of-that-name"})
    assert told(check) == ("mapped", "warning")
    assert list(weak_spots.check_mapped({"ada": "nobody"}, ())) == []
    monkeypatch.setattr(os, "getgrouplist", lambda _name, group: [group, 0])
    (check,) = weak_spots.check_mapped({"ada": "nobody"}, ())
    assert told(check) == ("mapped", "warning")
    assert "not in its groups root" in check.found


def test_an_engine_that_does_not_confine_is_a_weak_spot() -> None:
    facts = Facts(name="docker", version="28", limits="cgroup2", seccomp=True)
    (check,) = weak_spots.check_containers(facts, is_root=True)
    assert told(check) == ("container", "ok")
    assert check.found == "docker+cgroup2+account+devices+namespaces+seccomp"
    found = weak_spots.check_containers(Facts(name="docker", version="28"), is_root=False)
    assert [told(check) for check in found] == [
        ("seccomp", "failed"), ("limits", "warning"), ("container", "ok"),
    ]  # fmt: skip


def test_a_node_below_a_folder_that_others_write_is_said(closed: Path) -> None:
    node = closed / "open" / "node"
    node.mkdir(parents=True)
    assert told(weak_spots.check_folder(node)) == ("folder", "ok")
    node.parent.chmod(0o777)  # /tmp above has a sticky bit, this one has not
    check = weak_spots.check_folder(node)
    assert told(check) == ("folder", "failed")
    assert f"everybody ({node.parent})" in check.found
    node.parent.chmod(0o1777)
    assert told(weak_spots.check_folder(node)) == ("folder", "ok")


@pytest.mark.skipif(os.geteuid() != 0, reason="to give files away takes root")
def test_a_node_below_somebody_elses_folder_is_said(closed: Path) -> None:
    node = closed / "theirs" / "node"
    node.mkdir(parents=True)
    os.chown(node.parent, 7411, 7411)
    assert told(weak_spots.check_folder(node)) == ("folder", "failed")


def test_programs_that_others_may_change_are_named(closed: Path) -> None:
    module = closed / "lib" / "package" / "module.py"
    module.parent.mkdir(parents=True)
    module.touch(0o644)
    assert told(weak_spots.check_programs([str(closed / "lib")])) == ("programs", "ok")
    module.chmod(0o666)
    check = weak_spots.check_programs([str(closed / "lib")])
    assert told(check) == ("programs", "failed")
    assert str(module) in check.found


@pytest.mark.skipif(os.geteuid() != 0, reason="to make devices takes root")
def test_a_device_file_that_is_anothers_or_none_is_said(tmp_path: Path) -> None:
    null = tmp_path / "dev" / "null"
    null.parent.mkdir()
    os.mknod(null, stat.S_IFCHR, os.makedev(1, 3))
    null.chmod(0o666)
    assert told(weak_spots.check_device_files(tmp_path)) == ("device-files", "ok")
    os.chown(null, 7411, 0)
    check = weak_spots.check_device_files(tmp_path)
    assert (told(check), f"{null} belongs to uid 7411") == (("device-files", "failed"), check.found)
    os.chown(null, 0, 0)
    null.chmod(0o600)
    check = weak_spots.check_device_files(tmp_path)
    assert (check.health, check.found) == ("failed", f"{null} is closed to others")
    null.unlink()
    null.touch(0o666)
    assert weak_spots.check_device_files(tmp_path).found == f"{null} is another file"


def test_the_agent_tells_the_weak_spots_of_its_machine_and_fails_on_an_open_one(
    tmp_path: Path,
) -> None:
    words = [sys.executable, "-m", "headrace.node_agent", "--doctor", "json", "--security"]
    folder = tmp_path / "open" / "node"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o777)
    env = {**os.environ, "HEADRACE_NODE_DIR": str(folder)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
    health = {check["name"]: check["health"] for check in json.loads(done.stdout)}
    assert (done.returncode, health["folder"]) == (1, "failed")
    assert {"accounts", "loopback", "devices", "cgroup", "kernel", "links", "tracing",
            "programs", "device-files"} <= set(health)  # fmt: skip
    assert ("neighbours" in health) == (os.geteuid() == 0)
