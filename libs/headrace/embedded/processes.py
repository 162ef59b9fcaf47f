"""Processes by identity: started apart from us, found again, watched and ended.

Rule: a pid alone names nothing. A process is its pid, its start time and the boot it runs in, so
that a number which the kernel gave to somebody else is never waited for or killed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from headrace.embedded.accounts import Account

POLL_S = 0.005  # between two looks at something that cannot be waited for
KILL_WAIT_S_MAX = 10.0  # after SIGKILL only the kernel can still hold a process back


class _Child(subprocess.Popen[bytes]):
    """A child that may outlive us: being forgotten while it runs is no mistake."""

    def __del__(self) -> None:
        """Nothing: the ordinary one complains."""


_children: dict[int, _Child] = {}  # started by this process, to be reaped by it


class Process(msgspec.Struct, frozen=True):
    """One process of this machine, now or before. `start_ticks` is since boot."""

    pid: int
    start_ticks: int
    boot_id: str

    def __str__(self) -> str:
        return f"pid {self.pid}"


def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path,
    cwd: str = "/",
    account: Account | None = None,
    umask: int = 0o077,
) -> Process:
    """Start `command` in a session of its own, its output appended to `log` (0600).

    It outlives this process. `account`: run as that user. `umask` -1: ours. Raises `OSError`.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        child = _Child(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            start_new_session=True,
            umask=umask,
            **account.identity() if account else {},
        )
    finally:
        os.close(output)
    _children[child.pid] = child
    found = identify(child.pid)
    assert found is not None, "an unreaped child is in /proc"
    return found


def identify(pid: int) -> Process | None:
    """The process that has this pid now (a zombie too), or None."""
    stat = _stat(pid)
    return Process(pid, int(stat[19]), boot_id()) if stat else None


def alive(process: Process) -> bool:
    """Whether it still runs; a zombie does not."""
    stat = _stat(process.pid)
    if stat is None or int(stat[19]) != process.start_ticks or process.boot_id != boot_id():
        return False
    return stat[0] not in "ZX"


def age_s(process: Process) -> float:
    """How long ago it was started."""
    since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return round(since_boot_s - process.start_ticks / os.sysconf("SC_CLK_TCK"), 2)


def send(process: Process, number: int) -> bool:
    """Signal it; False when it is gone."""
    if not alive(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def open_pidfd(process: Process) -> int | None:
    """A descriptor that becomes readable when it ends, or None when it is gone already."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if alive(process):
        return descriptor
    os.close(descriptor)
    return None


def wait_exit(process: Process, timeout_s: float) -> bool:
    """Wait until it has ended; whether it did in time."""
    descriptor = open_pidfd(process)
    if descriptor is None:
        reap(process)
        return True
    try:
        ended = bool(select.select([descriptor], [], [], max(timeout_s, 0.0))[0])
    finally:
        os.close(descriptor)
    if ended:
        reap(process)
    return ended


def reap(process: Process) -> int | None:
    """Take the exit status of an ended child (negative: by that signal); None of a stranger."""
    child = _children.get(process.pid)
    if child is None:
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        status = child.wait(timeout=KILL_WAIT_S_MAX)
        _children.pop(process.pid, None)  # another thread may have been first
        return status
    return None


def end(process: Process, *steps: tuple[int, float]) -> bool:
    """Send each signal and give it its seconds; then SIGKILL. Whether it went before that."""
    for number, wait_s in steps:
        if not send(process, number) or wait_exit(process, wait_s):
            reap_if_ended(process)
            return True
    send(process, signal.SIGKILL)
    wait_exit(process, KILL_WAIT_S_MAX)
    return False


def reap_if_ended(process: Process) -> None:
    """Reap it when it is an ended child; otherwise do nothing."""
    if not alive(process):
        reap(process)


@functools.cache
def boot_id() -> str:
    """What names this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def all_pids() -> Iterator[int]:
    """Every pid there is now."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def working_in(folder: Path) -> list[Process]:
    """The running processes whose working directory is `folder`, as far as we may see."""
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                process = identify(pid)
                if process and alive(process):
                    found.append(process)
    return found


def children_of(pid: int) -> list[int]:
    """The pids of its children."""
    found = ((child, _stat(child)) for child in all_pids())
    return [child for child, stat in found if stat and int(stat[1]) == pid]


def title(pid: int) -> str:
    """Its command line as `ps` shows it; empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.replace(b"\0", b" ").decode(errors="replace").strip()


def wait_until(condition: Callable[[], bool], timeout_s: float, *, poll_s: float = POLL_S) -> bool:
    """Ask `condition()` until it holds or the time is over; whether it held."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the state on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
