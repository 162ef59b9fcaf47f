"""Control groups of either version, as far as this host lets the agent have them.

Rule: what counts is what works. Probing makes a group, limits it and removes it; whatever fails on
the way leaves the next level. Groups are the node's folder's: two platforms on one machine may have nodes
of one name, whose limits, device programs and loopback filters must not meet.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.node_agent.isolation import Group, Isolation, Limits, Processes, plan_of
from headrace.node_agent.supervision import kernel, loopback_filter
from headrace.node_agent.supervision.confinement import Confinement, remove

AUTO, PROCESSES = "auto", "processes"  # what a node may be set to
CHOICES = (AUTO, PROCESSES)
PERIOD_US = 100_000
QUOTA_US_MIN = 1_000  # the kernel takes no less
TASKS_MAX = 65_536  # processes and threads of one worker: a fork bomb stops before the machine does
NULL = "c 1:3"  # denied to a group that is tried out, and has no processes
INITIAL_TREE = 0xEFFFFFFB  # the kernel's `PROC_CGROUP_INIT_INO`: everybody's, where all begins
DIGITS = 8  # of a name: enough for the nodes of one machine
VERSION1 = ("memory", "cpu", "pids", "devices")
VERSION2 = ("memory", "cpu", "pids")


@dataclass(frozen=True)
class Cgroup2:
    """Groups below one folder of the unified tree."""

    base: str
    level: str = "cgroup2"
    keeps_devices: bool = True

    def groups(self, name: str, limits: Limits) -> list[Group]:
        """One group with every limit."""
        files = [("pids.max", str(TASKS_MAX), False)]
        if limits.memory_bytes:
            files += [
                ("memory.max", str(limits.memory_bytes), True),
                ("memory.swap.max", "0", False),
                ("memory.oom.group", "1", False),
            ]
        if limits.cpu_milli:
            files.append(("cpu.max", f"{_quota_us(limits)} {PERIOD_US}", True))
        return [(f"{self.base}/{name}", files)]

    def oom_file(self, name: str) -> str:
        """The group's own count."""
        return f"{self.base}/{name}/memory.events"

    def filtered(self, name: str) -> str:
        """The one group."""
        return f"{self.base}/{name}"


@dataclass(frozen=True)
class Cgroup1:
    """Groups below one folder of each hierarchy, by controller."""

    bases: Mapping[str, str]
    level: str = "cgroup1"
    keeps_devices: bool = True

    def groups(self, name: str, limits: Limits) -> list[Group]:
        """One group per controller, also where nothing is limited: what is in it can be found."""
        files: dict[str, list[tuple[str, str, bool]]] = {base: [] for base in self.bases}
        files["pids"] = [("pids.max", str(TASKS_MAX), False)]
        if limits.memory_bytes:
            both = str(limits.memory_bytes)
            files["memory"] = [
                ("memory.limit_in_bytes", both, True),
                ("memory.memsw.limit_in_bytes", both, False),  # where swap is counted
            ]
        if limits.cpu_milli:
            files["cpu"] = [("cpu.cfs_quota_us", str(_quota_us(limits)), True)]
        files["devices"] = [("devices.deny", f"{device} rwm", True) for device in limits.denied]
        return [
            (f"{base}/{name}", files[controller])
            for controller, base in self.bases.items()
            if files[controller]
        ]

    def oom_file(self, name: str) -> str:
        """The memory group's count."""
        return f"{self.bases['memory']}/{name}/memory.oom_control"

    def filtered(self, name: str) -> str:
        """None: `devices.deny` does it."""
        del name
        return ""


def name_of(node_dir: Path) -> str:
    """What the group above all attempts of the node in this folder is called, and whatever else of the
    machine's is the node's. It is the folder's as the kernel knows it, so that it stays when the agent starts
    anew or the folder is renamed, and another folder at the same path (of a container) has another. Raises
    `OSError`.
    """
    about = node_dir.stat()
    whose = hashlib.sha256(f"{about.st_dev}:{about.st_ino}".encode())
    return f"headrace-{whose.hexdigest()[:DIGITS]}"


def remove_base(name: str) -> None:
    """Take the group of this name away, wherever a version or an engine has it, with those that attempts
    left empty. What a process is in stays.
    """
    for folder in _bases(name):
        with contextlib.suppress(OSError):
            remove([below.path for below in os.scandir(folder) if below.is_dir()])
            remove([folder])


def probe(name: str, choice: str = AUTO) -> Isolation:
    """The best level that this host grants to the agent, in groups below one of this name."""
    if choice == PROCESSES:
        return Processes()
    mounts = _mounts(_text("/proc/self/mountinfo"))
    own = _own_groups(_text("/proc/self/cgroup"))
    with contextlib.suppress(OSError, KeyError):
        return _version2(Path(mounts["cgroup2"] + own[""]) / name)
    with contextlib.suppress(OSError, KeyError):
        return _version1({c: Path(mounts[c] + own[c].rstrip("/")) / name for c in VERSION1})
    return Processes()


def probe_loopback(name: str, isolation: Isolation) -> str:
    """The folder of version 2 below which a program in the kernel keeps the ports of an account's jobs
    from other jobs from now on, beside whichever version limits them; "" where this host grants none.
    """
    try:
        base = isolation.base if isinstance(isolation, Cgroup2) else _beside(name)
        _make(Path(base))
        loopback_filter.keep(base)
    except (OSError, KeyError):
        return ""
    return base


def restore(isolation: Isolation, loopback: str) -> None:
    """Make anew what is above the groups of attempts where somebody has removed it: empty while nothing
    runs, it goes with any tidying, and every job here would fail. Raises `OSError`.
    """
    is_kept = not loopback or os.path.isdir(loopback)
    if isinstance(isolation, Cgroup2) and not os.path.isdir(isolation.base):
        _version2(Path(isolation.base))
    elif isinstance(isolation, Cgroup1) and not all(map(os.path.isdir, isolation.bases.values())):
        _version1({controller: Path(base) for controller, base in isolation.bases.items()})
    if not is_kept:
        _make(Path(loopback))
        loopback_filter.keep(loopback)


def grants_loopback() -> bool:
    """Whether this host grants what `probe_loopback` looks for; nothing of the trial is left."""
    name = f"headrace-trial-{os.getpid()}"
    is_granted = bool(probe_loopback(name, Processes()))
    with contextlib.suppress(OSError, KeyError):
        os.rmdir(_beside(name))
    return is_granted


def own_groups() -> tuple[str, ...]:
    """The folders of the groups that this process is in, in every hierarchy where that is not all groups of
    the machine.
    """
    mounts, own = _mounts(_text("/proc/self/mountinfo")), _own_groups(_text("/proc/self/cgroup"))
    is_all = os.stat("/proc/self/ns/cgroup").st_ino == INITIAL_TREE
    found: set[str] = set()
    for of, top in mounts.items():
        group = own.get("" if of == "cgroup2" else of)
        if group or (group == "" and not is_all):
            path = f"{top}{group}"
            found.add(path if os.path.isdir(path) else top)  # of a container, the top is its own
    return tuple(sorted(found))


def path_in_tree(folder: str) -> str:
    """A folder of version 2 as the kernel names the group, for an engine that is told one; "" where
    this process has a tree of its own, whose names are others for the engine.
    """
    if os.stat("/proc/self/ns/cgroup").st_ino != INITIAL_TREE:
        return ""
    mounted = _mounts(_text("/proc/self/mountinfo")).get("cgroup2", "")
    return folder.removeprefix(mounted) if folder.startswith(f"{mounted}/") else ""


def is_below(folder: str, pid: int) -> bool:
    """Whether the process is in a group below this one, or has ended."""
    try:
        group = _own_groups(_text(f"/proc/{pid}/cgroup"))[""]
    except (OSError, KeyError):
        return True
    return group.startswith(f"{path_in_tree(folder)}/")


def _beside(name: str) -> str:
    """Our folder of version 2 where something else limits jobs. Raises `KeyError` where none is."""
    return f"{_mounts(_text('/proc/self/mountinfo'))['cgroup2']}/{name}"


def _bases(name: str) -> Iterable[str]:
    """The folders of this name: at the top of every hierarchy, and in this process's own group there."""
    mounts, own = _mounts(_text("/proc/self/mountinfo")), _own_groups(_text("/proc/self/cgroup"))
    tops = ((top, own.get("" if of == "cgroup2" else of, "")) for of, top in mounts.items())
    found = {f"{top}{way}/{name}" for top, group in tops for way in ("", group)}
    return filter(os.path.isdir, sorted(found))


def _version2(base: Path) -> Isolation:
    """Raises `OSError` where the tree is not ours, or lacks a controller."""
    here = base.parent
    offered = (here / "cgroup.controllers").read_text(encoding="ascii").split()
    if not set(VERSION2) <= set(offered):
        raise FileNotFoundError
    if (here / "cgroup.type").exists():  # not the root: a group holds processes or groups
        leaf = here / "agent"
        leaf.mkdir(exist_ok=True)
        for pid in (here / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(pid)
    _make(base)
    for folder in (here, base):
        enabled = " ".join(f"+{controller}" for controller in VERSION2)
        (folder / "cgroup.subtree_control").write_text(enabled)
    is_delegated = kernel.read("/proc/1/comm", 64).strip() == b"systemd"
    return _tried(Cgroup2(str(base), "systemd+cgroup2" if is_delegated else "cgroup2"))


def _version1(bases: Mapping[str, Path]) -> Isolation:
    """Raises `OSError` where a hierarchy is not ours."""
    for base in bases.values():
        _make(base)
    return _tried(Cgroup1({controller: str(base) for controller, base in bases.items()}))


def _make(base: Path) -> None:
    """Above all attempts, which pass through to their own groups and learn no names of others."""
    base.mkdir(exist_ok=True)
    base.chmod(0o711)  # whatever our umask


def _tried(found: Cgroup1 | Cgroup2) -> Isolation:
    """The level as far as it works: a group is made as an attempt would get it, and removed. Raises
    `OSError` where it does not work at all.
    """
    limits = Limits(cpu_milli=1000, memory_bytes=1 << 30)
    _try(found, limits)
    try:
        _try(found, replace(limits, denied=[NULL]))
    except OSError:
        return replace(found, keeps_devices=False)
    return found


def _try(isolation: Isolation, limits: Limits) -> None:
    plan = plan_of(isolation, "probe", limits, None)
    confinement = Confinement(plan)
    try:
        confinement.create()
    finally:
        remove(confinement.folders)


def _quota_us(limits: Limits) -> int:
    return max(QUOTA_US_MIN, limits.cpu_milli * PERIOD_US // 1000)


def _mounts(mountinfo: str) -> dict[str, str]:
    """Where each v1 controller is mounted, and `cgroup2`."""
    found: dict[str, str] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        where, kind = before.split()[4], after.split()
        if kind[:1] == ["cgroup2"]:
            found["cgroup2"] = where.rstrip("/")
        elif kind[:1] == ["cgroup"]:
            found.update(dict.fromkeys(kind[2].split(","), where))
    return found


def _own_groups(text: str) -> dict[str, str]:
    """Which group this process is in, by v1 controller, and under "" in the unified tree."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {name: path.rstrip("/") for _, names, path in lines for name in names.split(",")}


def _text(path: str) -> str:
    return os.fsdecode(kernel.read(path, 1_048_576))
