"""The attempts' folders on disk: their names, what they say, and how long they are kept.

Rule: a name that comes from outside becomes part of a path only if it matches the pattern of ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from headrace.events.gangs import Share
from headrace.node_agent.machine import AttemptKey, End, Seen
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.beneath import remove
from headrace.node_agent.supervision.protocol import (
    ATTEMPTS,
    EXIT,
    HOMES,
    INTENT,
    LAUNCHER_LOG,
    STOP,
)
from headrace.node_agent.worker_reports import values_of
from headrace.telemetry.disk import used_permille

AGENT_LOCK = "agent.lock"  # held by the node's agent as long as it lives
READ_S = 3_600  # what ended less long ago is kept however full the disk is
LAUNCHER_LOG_BYTES_MAX = 1_048_576
INTENT_BYTES_MAX = 65_536
EXIT_BYTES_MAX = 1_048_576

BARRED = b"{}\n"  # the intent of an attempt that never starts
PROCESS, DOCKER = "process", "docker"  # who runs an attempt

_FLOCK = struct.Struct("hhqqi")  # the kernel's `struct flock`: type, whence, start, length, pid
_ID = r"[a-z0-9][a-z0-9-]{0,62}"
_JOB = re.compile(rf"^{_ID}(/[0-9]{{1,9}})?$")
_NAME = re.compile(rf"^({_ID}(?:\.[0-9]{{1,9}})?)\.([0-9]{{1,9}})\.([0-9]{{1,9}})$")


class Kept(NamedTuple):
    """How many ended attempts have their folders and output kept, for how long, and up to how full
    a disk (thousandths): below the 90 % at which a node takes no work.
    """

    attempts: int = 5_000
    for_s: int = 7 * 86_400
    disk_permille: int = 850


KEPT = Kept()


class Intent(msgspec.Struct, kw_only=True):
    """The first line of `intent.json`: what a shim was about to run, and who it is."""

    version: int
    boot: str
    pid: int
    job: str
    attempt: int
    rank: int
    project: str
    traceparent: str
    enforcement: str
    marker: str
    devices: list[str]
    replace_after_s: int = 0
    isolation: str = ""
    groups: list[str] = []
    executor: str = PROCESS
    outputs: list[str] = []
    checkpoint_signal: str = ""
    checkpoint_grace_s: int = 0
    at_us: int = 0  # from the second line, as the next
    pids: list[int] = []

    @property
    def shares(self) -> tuple[Share, ...]:
        """The devices it was given."""
        parts = (device.rpartition(":") for device in self.devices)
        return tuple(Share(device=name, milli=int(milli)) for name, _, milli in parts)


class _Started(msgspec.Struct, kw_only=True):
    at_us: int
    pids: list[int]


class Exit(msgspec.Struct, kw_only=True):
    """`exit.json`: how the attempt ended."""

    reason: str
    exit_code: int = 0
    message: str = ""
    started_at_us: int = 0
    ended_at_us: int = 0
    process: int = -1

    def end(self, reported: dict[str, str]) -> End:
        """The same as the agent reports it, with what the worker said last."""
        return End(
            reason=self.reason,
            exit_code=self.exit_code,
            message=self.message,
            started_at_us=self.started_at_us,
            ended_at_us=self.ended_at_us,
            reported=reported,
            process=self.process,
        )


class _Stop(msgspec.Struct, kw_only=True):
    reason: str
    grace_s: int
    signal: str = ""


_INTENT = msgspec.json.Decoder(Intent)
_STARTED = msgspec.json.Decoder(_Started)
_EXIT = msgspec.json.Decoder(Exit)


def name_of(key: AttemptKey) -> str:
    """The folder of this attempt, relative to the node's. Raises `ValueError` for an id that is
    none.
    """
    if not _JOB.match(key.job) or key.attempt < 0 or key.rank < 0:
        raise ValueError(f"{key.job!r} is not the id of a job")
    return f"{ATTEMPTS}/{key.job.replace('/', '.')}.{key.attempt}.{key.rank}"


def keys_in(node_dir: Path) -> list[tuple[AttemptKey, Path]]:
    """Every attempt that has a folder."""
    found = []
    for folder in (node_dir / ATTEMPTS).iterdir():
        match = _NAME.match(folder.name)
        if match:
            job = match[1].replace(".", "/")
            found.append((AttemptKey(job, int(match[2]), int(match[3])), folder))
    return found


def read_exit(folder: Path) -> End | None:
    """How it ended; None when it has not, or nobody could write it down."""
    try:
        ended = _EXIT.decode(kernel.read(f"{folder}/{EXIT}", EXIT_BYTES_MAX))
    except (OSError, msgspec.MsgspecError):
        return None
    return ended.end(values_of(folder))


def read_ending(folder: Path) -> Exit | None:
    """How it was about to be written down that it ended."""
    try:
        return _EXIT.decode(kernel.read(f"{folder}/{EXIT}.new", EXIT_BYTES_MAX))
    except (OSError, msgspec.MsgspecError):
        return None


def is_open(folder: Path, executor: str) -> bool:
    """Whether this executor runs the attempt in this folder, and nobody has seen its end."""
    if read_exit(folder) is not None:
        return False
    intent = read_intent(folder)
    return executor == (intent.executor if intent is not None else PROCESS)


def read_intent(folder: Path) -> Intent | None:
    """What was meant to run; None when the shim had not come that far."""
    try:
        first, _, rest = kernel.read(f"{folder}/{INTENT}", INTENT_BYTES_MAX).partition(b"\n")
        intent = _INTENT.decode(first)
    except (OSError, msgspec.MsgspecError):
        return None
    with contextlib.suppress(msgspec.MsgspecError):
        started = _STARTED.decode(rest)
        intent.at_us, intent.pids = started.at_us, started.pids
    return intent


def seen_of(intent: Intent | None, end: End | None) -> Seen:
    """What is true of an attempt that left this behind."""
    phase = "starting" if intent is None or not intent.at_us else "running"
    seen = Seen(phase="ended" if end is not None else phase, project="", end=end)
    if intent is None:
        return seen
    return msgspec.structs.replace(
        seen,
        project=intent.project,
        traceparent=intent.traceparent,
        enforcement=intent.enforcement,
        shares=intent.shares,
        replace_after_s=intent.replace_after_s,
        isolation=intent.isolation,
        started_at_us=intent.at_us,
    )


def processes_of(folder: Path) -> list[int]:
    """The living processes of the attempt in this folder: what its shim has started, or, in a
    container, what carries the attempt's mark or descends from its first process.
    """
    if shim := shim_of(folder):
        return tree.descendants(shim)
    intent = read_intent(folder)
    if intent is None or intent.executor == PROCESS:
        return []
    return tree.of_attempt(intent.marker, intent.pids, [])


def shim_of(folder: Path) -> int:
    """The pid of the living shim that holds this attempt; 0 when there is none."""
    return holder_of(folder / INTENT)


def holder_of(path: Path) -> int:
    """The pid of the process that has locked the file; 0 when there is none.

    Asks for the holder without taking the lock, so that nobody is kept out by the question. A lock
    dies with its process: a pid that was used again cannot pass for the holder.
    """
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return 0
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else int(pid)
    finally:
        os.close(file)


def bar(folder: Path) -> bool:
    """See to it that no shim starts this attempt any more; False when one has taken it. Whoever writes
    the intent first, under its lock, decides: a shim that a killed launcher left behind may come to
    that at any time, long after a new agent has found nothing here.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        intent = os.open(folder / INTENT, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return True  # a shim could not write there either
    try:
        fcntl.lockf(intent, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(intent).st_size:
            os.write(intent, BARRED)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(intent)
    return read_intent(folder) is None


def write_lost(folder: Path, message: str, started_at_us: int, reason: str = "lost") -> End:
    """Write the end of an attempt whose shim cannot any more."""
    exit_ = Exit(
        reason=reason,
        message=message,
        started_at_us=started_at_us,
        ended_at_us=kernel.now_us(),
    )
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        kernel.write(f"{folder}/{EXIT}.new", msgspec.json.encode(exit_))
        os.rename(f"{folder}/{EXIT}.new", f"{folder}/{EXIT}")
    return exit_.end(values_of(folder))


def write_stop(folder: Path, reason: str, grace_s: int, signal: str = "") -> None:
    """Leave word for the shim why, how soon and by which signal it is to end everything."""
    stop = _Stop(reason=reason, grace_s=grace_s, signal=signal)
    kernel.write(f"{folder}/{STOP}.new", msgspec.json.encode(stop))
    os.rename(f"{folder}/{STOP}.new", f"{folder}/{STOP}")


def clean_homes(node_dir: Path, for_s: int) -> None:
    """Remove the homes of accounts that ran nothing for so long and run nothing now."""
    with contextlib.suppress(FileNotFoundError):
        for home in (node_dir / HOMES).iterdir():
            is_old = home.lstat().st_mtime < time.time() - for_s
            if is_old and not _has_processes(home.lstat().st_uid):
                remove(home)


def _has_processes(user: int) -> bool:
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and entry.stat().st_uid == user:
                return True
    return False


def clean(node_dir: Path, held: frozenset[AttemptKey], kept: Kept = KEPT) -> int:
    """Remove the oldest ended attempts beyond what is kept; how many. What launcher and shims
    complained of begins anew when it is long.
    """
    with contextlib.suppress(OSError):
        if (node_dir / LAUNCHER_LOG).stat().st_size > LAUNCHER_LOG_BYTES_MAX:
            os.truncate(node_dir / LAUNCHER_LOG, 0)  # whoever writes to it appends
    ended = []
    for key, folder in keys_in(node_dir):
        if key not in held:
            with contextlib.suppress(OSError):
                ended.append(((folder / EXIT).stat().st_mtime, folder))
    clean_homes(node_dir, kept.for_s)
    ended.sort(reverse=True)
    now_s, gone = time.time(), 0
    while ended and (
        len(ended) > kept.attempts
        or ended[-1][0] < now_s - kept.for_s
        or (ended[-1][0] < now_s - READ_S and used_permille(node_dir) > kept.disk_permille)
    ):
        remove(ended.pop()[1])
        gone += 1
    return gone
