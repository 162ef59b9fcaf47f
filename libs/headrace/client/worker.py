"""What a program can ask and say inside a worker; without Headrace the same calls do nothing.

    import headrace.client as headrace

    for step in range(steps):
        ...
        headrace.report(step=step, loss=loss, throughput=images_per_s)
        if headrace.checkpoint_requested() and headrace.rank() == 0:
            save()

Rule: the standard library alone, and nothing here ends a training: a disk that is full costs a
report and no more. A report is the last of each value, in a file that the node's agent looks at.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import threading
import time
from pathlib import Path

REPORT_DIR = "HEADRACE_REPORT_DIR"
REASON_FILE = "HEADRACE_STOP_REASON_FILE"
REPORT_S = 0.5  # between two writes; the last report is written at the end in any case
VALUES_MAX = 16  # names of one process
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

# Launchers that start several processes in one of Headrace's set their own, which win.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "HEADRACE_RANK")
_LOCAL_RANKS = (
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "LOCAL_RANK",
    "HEADRACE_LOCAL_RANK",
)
_WORLD_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "HEADRACE_WORLD_SIZE")


def rank() -> int:
    """Which of all processes of the job this is; 0 for one alone."""
    return _first(_RANKS, 0)


def local_rank() -> int:
    """Which of the processes on this node this is."""
    return _first(_LOCAL_RANKS, 0)


def world_size() -> int:
    """How many processes the job has; 1 for one alone."""
    return _first(_WORLD_SIZES, 1)


def report(**values: float) -> None:
    """Say how it goes: `step`, `loss`, `throughput`, `accuracy`, or any other name. A name keeps its
    last value. Anything that `float` takes is a number, a tensor of one element too.

    Raises `ValueError` for more than 16 names and for one that is none, `TypeError` for what is no
    number; both without Headrace too.
    """
    _REPORTS.take({name: _text(name, value) for name, value in values.items()})


def progress(done: float, total: float) -> None:
    """Say how much of the work is done."""
    report(progress=done / total if total else 0.0)


def checkpoint_requested() -> bool:
    """Whether the job is asked to end: now is the time to write a checkpoint."""
    return bool(stop_reason())


def stop_reason() -> str:
    """Why the job is asked to end: preempted, paused, timeout, cancelled, node-drain; empty while
    it is not.
    """
    path = os.environ.get(REASON_FILE)
    if not path:
        return ""
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    return ""


class _Reports:
    """The last value of each name, and its file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}
        self._written_s = 0.0
        self._is_owed = False
        atexit.register(self.flush)

    def take(self, values: dict[str, str]) -> None:
        with self._lock:
            if len(self._values.keys() | values.keys()) > VALUES_MAX:
                raise ValueError(f"at most {VALUES_MAX} names can be reported")
            self._values.update(values)
            self._is_owed = True
            if time.monotonic() - self._written_s >= REPORT_S:
                self._write()

    def flush(self) -> None:
        with self._lock:
            if self._is_owed:
                self._write()

    def _write(self) -> None:
        self._written_s, self._is_owed = time.monotonic(), False
        folder = os.environ.get(REPORT_DIR)
        if not folder:
            return
        content = json.dumps({"at_us": time.time_ns() // 1000, "values": self._values})
        path = os.path.join(folder, f"{local_rank()}.json")
        written = f"{path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            Path(written).write_text(content, encoding="ascii")
            os.replace(written, path)


def _text(name: str, value: float) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a value: letters, digits and _, at most 40")
    return str(value) if isinstance(value, int) else repr(float(value))


def _first(names: tuple[str, ...], default: int) -> int:
    for name in names:
        value = os.environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return default


_REPORTS = _Reports()
