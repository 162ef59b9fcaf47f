"""The weak spots of this machine, for `headrace doctor --security`: what it does not grant to keep jobs
from each other and from its agent, and who could put something else in the agent's place.

Rule: each check names what follows from what it found, and is judged from files and settings; what only
the kernel can tell is tried by making it, and nothing of the trial is left.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from headrace.doctor import Check, failed, named, ok, warning
from headrace.events.accounts import EVERYBODY, UNISOLATED
from headrace.node_agent.containers.facts import Facts
from headrace.node_agent.containers.isolation import level_of
from headrace.node_agent.doctor.host import check_cgroups
from headrace.node_agent.isolation.accounts import ENGINE_SOCKETS, Accounts, privileged

BENEATH, VIEWS, SCOPED_SOCKETS = (5, 6), (5, 12), (6, 12)  # kernels: what each is needed for
DEVICE_FILES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
EVERYBODYS = 0o666  # their mode
ENTRIES_MAX = 50_000  # of the agent's programs that are looked at
Granted = Collection[str]  # as `isolation.views.granted` tells it


def check_namespaces(granted: Granted, accounts: Accounts, release: str) -> Iterator[Check]:
    """Whether each attempt has processes, temporary folders and abstract sockets of its own."""
    if not granted:
        fix = "Linux 5.12 or later, where the agent may make namespaces (sysctl user.max_user_namespaces)"
        found = "none: jobs see each other's processes, /tmp, /dev/shm and IPC"
        is_open = accounts.isolation == UNISOLATED and accounts.trusted == EVERYBODY
        yield (failed if is_open else warning)("namespaces", found, fix)
    else:
        whose = "" if "root" in granted else ", in the agent's own account"
        yield ok("namespaces", f"each attempt has its own processes, /tmp, /dev/shm and IPC{whose}")
    if granted and "sockets" not in granted:
        has_kernel = _version(release) >= SCOPED_SOCKETS
        fix = "boot with landlock in lsm=" if has_kernel else f"Linux {_text(SCOPED_SOCKETS)}"
        found = "jobs reach abstract unix sockets of other jobs and of the machine"
        yield warning("sockets", found, fix)
    elif granted:
        yield ok("sockets", "abstract ones stay within an attempt")


def check_loopback(*, is_root: bool, is_kept: bool) -> Check:
    """Whether jobs reach what other accounts' jobs listen on, on this machine's own addresses."""
    if is_kept:
        return ok("loopback", "jobs reach the ports of their own account's jobs only")
    fix = (
        "mount a cgroup v2 tree that the agent may write (/sys/fs/cgroup, or beside version 1)"
        if is_root
        else "run the agent as root"
    )
    found = (
        "any job reaches what others listen on here but at sockets: their programs need passwords"
    )
    return warning("loopback", found, fix)


def check_devices(granted: Granted, root: Path, *, is_root: bool) -> Check:
    """Whether a job can open devices that it was not given."""
    mount = root / "sys/fs/cgroup"
    has_groups = is_root and (
        (mount / "devices").exists() or (mount / "cgroup.controllers").exists()
    )
    if granted or has_groups:
        return ok("devices", "a job opens its own GPUs alone, where their driver names their files")
    fix = "run the agent as root with control groups, or allow namespaces"
    return warning("devices", "a job can open every GPU of the machine", fix)


def check_limits(root: Path, choice: str, *, is_root: bool) -> Check:
    """Whether a job is kept to its memory, CPU and number of processes."""
    if is_root:
        return check_cgroups(root, choice)
    found = "of an agent that is not root: jobs are limited only where systemd delegates a v2 tree to it"
    return warning("cgroup", found, "run the agent as root, or with Delegate= in its unit")


def check_kernel(release: str) -> Check:
    """Whether the kernel can do what the agent does in folders of jobs."""
    if (version := _version(release)) >= VIEWS:
        return ok("kernel", release)
    lack = (
        f"before {_text(VIEWS)} attempts have no mounts of their own, and volumes of jobs no mounts"
    )
    if version < BENEATH:
        lack += f"; before {_text(BENEATH)} paths of jobs are followed name by name"
    return warning("kernel", f"{release}: {lack}", f"Linux {_text(VIEWS)} or later")


def check_links(root: Path) -> Check:
    """Whether the kernel lets accounts lay links to what is not theirs."""
    names = ("protected_hardlinks", "protected_symlinks")
    off = [name for name in names if _read(root / f"proc/sys/fs/{name}") == "0"]
    if off:
        fix = f"sysctl -w {' '.join(f'fs.{name}=1' for name in off)} (and in /etc/sysctl.d)"
        return warning("links", f"{' and '.join(off)} off: anybody links others' files", fix)
    return ok("links", "to others' files are refused by the kernel")


def check_tracing(root: Path) -> Check:
    """Whether processes of one account read each other's memory."""
    scope = _read(root / "proc/sys/kernel/yama/ptrace_scope")
    if scope in ("1", "2", "3"):
        return ok("tracing", "a process traces its own children at most")
    found = "processes of one account may read each other's memory"
    fix = "sysctl -w kernel.yama.ptrace_scope=1 (and in /etc/sysctl.d)"
    if not scope:
        fix = "a kernel with Yama (lsm=yama), then kernel.yama.ptrace_scope=1"
    return warning("tracing", found, fix)


def check_device_files(root: Path) -> Check:
    """Whether the files of the machine's common devices are root's and open to everybody: whoever owns one
    can close it to all others.
    """
    unmapped = int(_read(root / "proc/sys/fs/overflowuid") or -1)  # in a user namespace, root's
    weak = []
    for name, device in DEVICE_FILES.items():
        path = root / "dev" / name
        try:
            about = path.stat()
        except OSError:
            continue
        if not stat.S_ISCHR(about.st_mode) or about.st_rdev != os.makedev(*device):
            weak.append(f"{path} is another file")
        elif about.st_uid not in (0, unmapped):
            weak.append(f"{path} belongs to uid {about.st_uid}")
        elif about.st_mode & EVERYBODYS != EVERYBODYS:
            weak.append(f"{path} is closed to others")
    if weak:
        paths = " ".join(f"/dev/{name}" for name in DEVICE_FILES)
        fix = f"chown root {paths}; chmod 666 them; find out who changed what is named"
        return failed("device-files", named(weak), fix)
    return ok("device-files", "root's, and open to everybody")


def check_engine_socket(address: str) -> Iterator[Check]:
    """What an engine beside processes means, and who else may use it."""
    if not address:
        yield ok("engine", "none: no job runs in a container here")
        return
    path = Path(address.removeprefix("unix://"))
    try:
        mode = path.stat().st_mode
    except OSError:
        mode = 0
    if mode & stat.S_IWOTH:
        found = f"whoever may write {path} is root here, and everybody may"
        yield failed("engine", found, f"chmod o= {path}")
    fix = "HEADRACE_NODE_ENGINE=none where workspaces run; a pool of its own for jobs with image:"
    found = "containers have no user namespace and the host's network: they reach workspaces' ports"
    yield warning("containers", found, fix)


def check_containers(facts: Facts, *, is_root: bool) -> Iterator[Check]:
    """What an engine that answers keeps containers from, and what it does not."""
    if not facts.seccomp:
        fix = "remove seccomp-profile from the engine's daemon.json, or build it with seccomp"
        yield failed("seccomp", "containers may make every system call", fix)
    if not facts.limits:
        fix = "control groups with memory, cpu and pids (docker info says what it lacks)"
        yield warning("limits", "not all of memory, CPU and tasks of containers are limited", fix)
    account = (1, 1, list[int]()) if is_root else None
    yield ok("container", level_of(facts, account))


def check_mapped(
    users: Mapping[str, str], sockets: Iterable[str] = ENGINE_SOCKETS
) -> Iterator[Check]:
    """Whether an account of the machine that jobs run as has more rights than a job should."""
    high = privileged(sockets)
    for user, name in users.items():
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            found = f"{name}, for jobs of {user}, is no account here"
            yield warning("mapped", found, f"useradd {name}")
            continue
        fix = f"map {user} to another account (HEADRACE_NODE_USERS), or none"
        if entry.pw_uid == 0 or entry.pw_gid in high:
            yield failed("mapped", f"no job of {user} runs: {name} is as good as root", fix)
        elif held := sorted(high[g] for g in os.getgrouplist(name, entry.pw_gid) if g in high):
            found = f"jobs of {user} run as {name}, but not in its groups {' '.join(held)}"
            yield warning("mapped", found, fix)


def check_folder(folder: Path) -> Check:
    """Whether somebody else can put other files in the place of the node's."""
    if weak := [found for way in (folder, *folder.parents) if (found := _others(way))]:
        fix = "chown root and chmod go-w what is named, or keep the node elsewhere (--dir)"
        return failed("folder", f"{named(weak)} may replace the node's keys and files", fix)
    return ok("folder", f"{folder}: nobody else writes there or above")


def check_programs(paths: Iterable[str]) -> Check:
    """Whether somebody else can change what the agent runs. `paths` are its folders of programs."""
    weak: dict[str, None] = {}
    ways = dict.fromkeys(way for path in map(Path, paths) for way in (path, *path.parents))
    for count, path in enumerate((*ways, *_below(path for path in paths))):
        if found := _others(path):
            weak[found] = None
        if count >= ENTRIES_MAX:
            break
    if weak:
        found = f"{named(list(weak))} may change what the agent runs"
        return failed(
            "programs", found, "chown -R root and chmod -R go-w these; reinstall headrace"
        )
    return ok("programs", "nobody else may change what the agent runs")


def _below(folders: Iterable[str]) -> Iterator[Path]:
    for top in dict.fromkeys(folders):
        for folder, names, files in os.walk(top):
            yield from (Path(folder, name) for name in (*names, *files))


def _others(path: Path) -> str:
    """Who besides root and us may write there: `everybody (/path)`; empty when nobody may."""
    try:
        about = path.lstat()
    except OSError:
        return ""
    if stat.S_ISLNK(about.st_mode):
        return ""  # what counts is who may write the folder it is in, and what it leads to
    if about.st_uid not in (0, os.geteuid()):
        return f"the owner of {path}"
    is_shared = stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX  # /tmp: not ours
    if about.st_mode & stat.S_IWOTH and not is_shared:
        return f"everybody ({path})"
    if about.st_mode & stat.S_IWGRP and about.st_gid not in (0, os.getegid()) and not is_shared:
        return f"the group of {path}"
    return ""


def _version(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
