"""What keeps an attempt's processes to their share: control groups, an account, their place in the
kernel's line when memory runs out.

Rule: plain data, planned by the agent (`isolation/`), which knows the host; nothing here asks what
kind of groups they are. A group is removed when nothing is left in it.
"""

import contextlib
import os
import stat
from typing import Any

from headrace.node_agent.supervision import device_filter, kernel

OOM_SCORE_ADJ = 500  # jobs go before the platform that runs them
_MIB = 1_048_576

Plan = dict[str, Any]
"""`level` (its name), `groups` (each `[folder, [[file, value, is_needed], …]]`), `oom` (a file with a
line `oom_kill N`, or ""), `memory_bytes` (0: no limit), `covers` (closed folders, each with
what is shown of it: `[folder, [[path, is_read_only], …]]`), `mounts` (each `[source, target, is_read_only]`), `account` (`[uid, gid, [groups]]` or None),
`filter` (`[folder, [device, …]]`: what a group of version 2 is kept from, or None)."""


class Confinement:
    """One attempt's plan, carried out."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.folders: list[str] = [folder for folder, _ in plan["groups"]]

    def create(self) -> None:
        """Make the groups with their limits. Raises `OSError`."""
        for folder, limits in self._plan["groups"]:
            with contextlib.suppress(FileExistsError):
                os.makedirs(folder)
            for file, value, is_needed in limits:
                try:
                    kernel.write(f"{folder}/{file}", value.encode(), flags=0)
                except OSError:
                    if is_needed:
                        raise
        if self._plan["filter"] is not None:
            device_filter.attach(*self._plan["filter"])

    def enter(self) -> None:
        """In a new process: join the groups, stand in line, and be the account from now on. Raises
        `OSError`.
        """
        for folder in self.folders:
            kernel.write(f"{folder}/cgroup.procs", b"0", flags=0)
        with contextlib.suppress(OSError):
            kernel.write("/proc/self/oom_score_adj", str(OOM_SCORE_ADJ).encode(), flags=0)
        if self._plan["mounts"] or self._plan["covers"]:
            self._mount()
        if self._plan["account"] is not None:
            user, group, groups = self._plan["account"]
            os.setgroups(groups)
            os.setgid(group)
            os.setuid(user)
            kernel.gain_no_privileges()

    def _mount(self) -> None:
        """Show folders and files to this process and what it starts, and to nobody else. Raises `OSError`."""
        covers, mounts = self._plan["covers"], self._plan["mounts"]
        kernel.leave_mounts()
        shown = [path for _, paths in covers for path, _ in paths]
        held = {
            path: os.open(path, os.O_PATH | os.O_CLOEXEC)  # for after it is covered
            for path in (*shown, *(source for source, _, _ in mounts))
        }
        for folder, paths in covers:
            kernel.cover(folder)
            for path, is_read_only in paths:
                _make_place(held[path], path)
                kernel.show(f"/proc/self/fd/{held[path]}", path, is_read_only=is_read_only)
        for source, target, is_read_only in mounts:
            if not os.path.exists(target):
                os.makedirs(target, mode=0o755)
            kernel.show(f"/proc/self/fd/{held[source]}", target, is_read_only=is_read_only)
        for descriptor in held.values():
            os.close(descriptor)

    def hand_over(self, *paths: str) -> None:
        """Let the account, and nobody else, have these files and folders of the attempt's."""
        if self._plan["account"] is not None:
            user, group = self._plan["account"][:2]
            for path in paths:
                os.chown(path, user, group)
            os.chown(".", -1, group)  # who passes through `attempts` gets into their own
            os.chmod(".", 0o710)  # noqa: S103  (to pass through, not to look)

    def ran_out_of_memory(self) -> str:
        """One line for people if the groups' limit ended a process; empty if it did not."""
        if not self._plan["oom"]:
            return ""
        with contextlib.suppress(OSError, ValueError):
            for line in kernel.read(self._plan["oom"], 4096).splitlines():
                name, _, count = line.partition(b" ")
                if name == b"oom_kill" and int(count):
                    limit = -(-self._plan["memory_bytes"] // _MIB)
                    level = self._plan["level"]
                    return f"out of memory: its limit is {limit} MiB (resources.memory), held by {level}"
        return ""


def _make_place(descriptor: int, path: str) -> None:
    """Below a covered folder, something to show a folder or file at, and the way to it."""
    above = os.path.dirname(path)
    was = os.umask(0o066)
    try:
        os.makedirs(above, mode=0o711, exist_ok=True)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.makedirs(path, exist_ok=True)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))
    finally:
        os.umask(was)


def pids_in(folders: list[str]) -> list[int]:
    """The processes in these groups."""
    found: set[int] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            found.update(map(int, kernel.read(f"{folder}/cgroup.procs", 1_048_576).split()))
    return sorted(found)


def kill(folders: list[str]) -> None:
    """Kill all that is in these groups, what is just being forked included, where the kernel does that
    (version 2); elsewhere whoever is found there is killed one by one.
    """
    for folder in folders:
        with contextlib.suppress(OSError):
            kernel.write(f"{folder}/cgroup.kill", b"1", flags=0)


def remove(folders: list[str]) -> None:
    """Take these groups away: nothing is left in them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
