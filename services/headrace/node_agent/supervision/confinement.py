"""What keeps an attempt's processes to their share: control groups, an account, their place in the
kernel's line when memory runs out.

Rule: plain data, planned by the agent (`isolation/`), which knows the host; nothing here asks what
kind of groups they are. A group is removed when nothing is left in it.
"""

import contextlib
import os
from typing import Any

from headrace.node_agent.supervision import device_filter, kernel, processes, terminals
from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.beneath import remove as remove_folder
from headrace.node_agent.supervision.namespaces import TMP, USER, Namespaces

OOM_SCORE_ADJ = 500  # jobs go before the platform that runs them
_MIB = 1_048_576
_OOM = "/proc/self/oom_score_adj"

Plan = dict[str, Any]
"""`level` (its name), `groups` (each `[folder, [[file, value, is_needed], …]]`), `joined` (a group of version 2 of all attempts,
in which the shim and what it starts are, or ""), `oom` (a file with a
line `oom_kill N`, or ""), `memory_bytes` (0: no limit), `account` (`[uid, gid, [groups]]` or None),
`filter` (`[folder, [device, …]]`: what a group of version 2 is kept from, or None), `view` (see
`namespaces.View`; None: all that the host has), `mounts` (each `[source, target, is_read_only]`, with a
view)."""


class Confinement:
    """One attempt's plan, carried out."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.folders: list[str] = [folder for folder, _ in plan["groups"]]
        self.namespaces = Namespaces(plan["view"], plan["mounts"]) if plan["view"] else None

    def create(self) -> None:
        """Make the groups with their limits, where what is above them is: that keeps them to more than
        they say. Raises `OSError`.
        """
        for folder, limits in self._plan["groups"]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            if self._plan["account"] is not None:  # which reads its own limits; others do not
                os.chown(folder, -1, self._plan["account"][1])
                os.chmod(folder, 0o750)  # noqa: S103
            for file, value, is_needed in limits:
                try:
                    kernel.write(f"{folder}/{file}", value.encode(), flags=0)
                except OSError:
                    if is_needed:
                        raise
        if self._plan["joined"]:
            kernel.write(f"{self._plan['joined']}/cgroup.procs", b"0", flags=0)
        if self._plan["filter"] is not None:
            device_filter.attach(*self._plan["filter"])

    def prepare(self) -> None:
        """Before the first process: make what it enters. Raises `OSError`."""
        if self.namespaces is not None:
            self.namespaces.start(self._plan["account"])
            if self.namespaces.is_first and not kernel.CAN_SPLIT_ACCOUNTS:
                kernel.run_beside(self.namespaces.make)

    def enter(self, parent: int) -> None:
        """In a new process, which `parent` has forked: join groups and namespaces, stand in line, be
        the account from now on, and end with the parent. Raises `OSError`.
        """
        for folder in self.folders:
            kernel.write(f"{folder}/cgroup.procs", b"0", flags=0)
        with contextlib.suppress(OSError):
            kernel.write(_OOM, str(OOM_SCORE_ADJ).encode(), flags=0)
        if self.namespaces is not None:
            self.namespaces.enter()
        if self._plan["account"] is not None:
            user, group, groups = self._plan["account"]
            os.setgroups(groups)
            os.setgid(group)
            os.setuid(user)
        if self._plan["account"] is not None or self._is_of_a_user:
            kernel.gain_no_privileges()
        if self._is_of_a_user:
            kernel.forbid_keyrings()
        if self.namespaces is None:
            kernel.die_with(parent)  # last: another account would forget it

    def start(
        self,
        argv: list[str],
        env: dict[str, str],
        folder: str,
        streams: tuple[int, int, int],
    ) -> int:
        """Start a process in all this; its pid. The first one is started beside this process where that
        is the namespaces' first: nobody is there yet who could do anything to a thread that has the
        account. Raises `processes.CannotStart`.
        """
        if self.namespaces is None or not self.namespaces.is_first:
            return processes.start(argv, env, folder, streams, self.enter)
        before = kernel.read(_OOM, 16)
        home = _unified_home(self.folders)
        kernel.write(_OOM, str(OOM_SCORE_ADJ).encode(), flags=0)
        try:
            return processes.start_beside(argv, env, folder, streams, self._enter_beside)
        finally:  # what cannot be undone ends this process, and all there is with it
            kernel.write(_OOM, before, flags=0)
            if home:
                kernel.write(f"{home}/cgroup.procs", b"0", flags=0)

    def _enter_beside(self) -> None:
        """The same in a thread; a group of version 2 takes the whole process, for this moment."""
        assert self.namespaces is not None
        for folder in self.folders:
            try:
                kernel.write(f"{folder}/tasks", b"0", flags=0)
            except OSError:
                kernel.write(f"{folder}/cgroup.procs", b"0", flags=0)
        self.namespaces.make()
        if self._plan["account"] is not None:
            kernel.be(*self._plan["account"])
            kernel.gain_no_privileges()

    @property
    def init(self) -> int:
        """The process that ends with the shim and takes all others along; 0: there is none, or it is the
        shim itself.
        """
        return self.namespaces.init if self.namespaces is not None else 0

    @property
    def _is_of_a_user(self) -> bool:
        return self._plan["view"] is not None and self._plan["view"]["kind"] == USER

    def hand_over(self, attempt: Folder, paths: list[str], readable: str) -> None:
        """Let the account, and nobody else, have these files and folders of the attempt's, and read one
        that stays the node's. The folder for temporary files is one of them.
        """
        if self.namespaces is not None:
            attempt.make(TMP)
            paths = [*paths, TMP]
        if self._plan["account"] is not None:
            user, group, _ = self._plan["account"]
            for path in paths:
                attempt.hand_over(path, user, group)
            attempt.show(readable, group)
            os.fchown(
                attempt.descriptor, -1, group
            )  # who passes through `attempts` gets into their own
            os.fchmod(attempt.descriptor, 0o710)  # to pass through, not to look

    def open_terminal(self) -> tuple[int, int]:
        """Both ends of a new terminal of the attempt's, the first of which is ours. Raises `OSError`."""
        root = self.namespaces.root if self.namespaces is not None else -1
        return terminals.opened(root, self._plan["account"])

    def clear(self) -> None:
        """Nothing is left: take the groups away, and what was in the temporary folder."""
        remove(self.folders)
        if self.namespaces is not None:
            try:
                os.rmdir(TMP)  # most are empty: cheaper than a look
            except OSError:
                remove_folder(TMP)

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


def _unified_home(folders: list[str]) -> str:
    """Where this process is in the tree of version 2, if one of these groups is there; else ""."""
    for folder in folders:
        if os.path.exists(f"{folder}/cgroup.events"):
            top = os.path.dirname(folder)
            while os.path.exists(f"{os.path.dirname(top)}/cgroup.procs"):
                top = os.path.dirname(top)
            own = (
                kernel.read("/proc/self/cgroup", 65_536)
                .decode()
                .rstrip("\n")
                .rpartition("\n0::")[2]
            )
            return f"{top}{own.removeprefix('0::').rstrip('/')}"
    return ""
