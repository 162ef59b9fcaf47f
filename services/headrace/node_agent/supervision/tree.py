"""Which processes belong to an attempt: by descent, by the mark in their environment, by session, by
control group.

Rule: a process that has ended but is not reaped yet (a zombie) does not count: it holds nothing.
Processes are named by their number in /proc, which is the host's, also in a shim with a PID namespace
of its own.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.confinement import kill, pids_in, remove
from headrace.node_agent.supervision.protocol import MARKER

SWEEP_S_FIRST = 0.005  # between two looks while something is being killed
SWEEP_S_MAX = 1.0  # a process in uninterruptible sleep is looked at this often
EMPTY_LOOKS = 2  # in a row, before nothing is left: a fork may slip through one look


def processes() -> dict[int, tuple[int, int]]:
    """Every living process: pid to (parent, session)."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = kernel.stat(int(name))
            if fields and fields[0] != b"Z":
                found[int(name)] = (int(fields[1]), int(fields[3]))
    return found


def descendants(root: int) -> list[int]:
    """The living descendants of `root`, without itself."""
    return _descendants({root}, processes())


def children(parents: Collection[int]) -> list[int]:
    """The living processes that one of these would reap."""
    return [pid for pid, (of, _) in processes().items() if of in parents]


def of_attempt(marker: str, sessions: list[int], groups: list[str]) -> list[int]:
    """The living processes with this mark, in these sessions or in these control groups, and their
    descendants.
    """
    alive = processes()
    roots = {pid for pid in alive if alive[pid][1] in sessions or is_marked(pid, marker)}
    roots.update(pid for pid in pids_in(groups) if pid in alive)
    roots.discard(os.getpid())
    return sorted(roots.union(_descendants(roots, alive)))


def is_marked(pid: int, marker: str) -> bool:
    """Whether the process was started with this attempt's mark in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARKER}={marker}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def send(pids: list[int], number: int) -> None:
    """Signal each process, by its number in /proc; one that has gone meanwhile is passed over."""
    for pid in pids:
        with contextlib.suppress(OSError):
            process = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)  # serves as a pidfd
            try:
                signal.pidfd_send_signal(process, number)
            finally:
                os.close(process)


def ask(pids: list[int], number: int) -> None:
    """Signal each of these processes, but none that would die of it before those below it which
    listen to it are done: a shell that waits for what it runs, torchrun for its workers.
    """
    alive = processes()
    listening = {pid for pid in pids if kernel.is_caught(pid, number)}
    above = {
        pid for pid in pids if pid not in listening and listening & {*_descendants({pid}, alive)}
    }
    send([pid for pid in pids if pid not in above], number)


def sweep(marker: str, sessions: list[int], groups: list[str]) -> int:
    """Kill what is left of an attempt whose shim has gone, until nothing is; how many there were.

    Returns only on proof, however long a process cannot be killed.
    """
    killed: set[int] = set()
    pause_s, empty = SWEEP_S_FIRST, 0
    while empty < EMPTY_LOOKS:
        found = of_attempt(marker, sessions, groups)
        empty = 0 if found else empty + 1
        killed.update(found)
        kill(groups)
        send(found, signal.SIGKILL)
        if found:
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, SWEEP_S_MAX)
    remove(groups)
    return len(killed)


def _descendants(roots: set[int], alive: dict[int, tuple[int, int]]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in alive.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        born = children.pop(waiting.pop(), [])
        found.extend(born)
        waiting.extend(born)
    return found
