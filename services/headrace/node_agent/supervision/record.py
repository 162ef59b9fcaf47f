"""What a shim writes down of its attempt: what was meant, what runs, how it ended.

Rule: what is meant is written before anything is started, and under a lock that lives as long as the
shim; how it ended is written once, whole or not at all, and again while the disk is full.
"""

import contextlib
import fcntl
import json
import os
import signal
from typing import Any

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import EXIT, INTENT, VERSION

EXIT_TRIES, EXIT_AGAIN_S = 60, 1.0  # to write how it ended
EXIT_ROOM_BYTES = 4096  # taken before anything runs: a full disk must not cost the exit code

_KEPT = (
    "job", "attempt", "rank", "project", "traceparent", "marker", "devices", "enforcement",
    "replace_after_s", "outputs", "checkpoint_signal", "checkpoint_grace_s",
)  # fmt: skip


class Record:
    """The files of one attempt, in the working directory."""

    def __init__(self, intent: int) -> None:
        self._intent = intent

    @classmethod
    def claim(cls, folder: str) -> "Record | None":
        """Enter the folder and lock its intent; None when this attempt runs or has run."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        os.chdir(folder)
        intent = os.open(INTENT, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.lockf(intent, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its own, not its children's
        except OSError:
            return None
        return None if os.fstat(intent).st_size else cls(intent)

    def meant(self, spec: dict[str, Any], boot: str) -> None:
        """Write what is about to run. Raises `OSError`: then nothing may."""
        facts: dict[str, Any] = {"version": VERSION, "boot": boot, "meant_at_us": kernel.now_us()}
        plan = spec["confinement"]
        facts |= {"isolation": plan["level"], "groups": [folder for folder, _ in plan["groups"]]}
        kernel.write(f"{EXIT}.new", b" " * EXIT_ROOM_BYTES)
        meant = {**facts, "pid": kernel.own_number(), **{key: spec[key] for key in _KEPT}}
        os.write(self._intent, json.dumps(meant).encode() + b"\n")

    def started(self, at_us: int, pids: list[int]) -> None:
        """These processes run. A full disk must not end them."""
        with contextlib.suppress(OSError):
            running = ", ".join(map(str, pids))
            os.write(self._intent, f'{{"at_us": {at_us}, "pids": [{running}]}}\n'.encode())

    def ended(self, end: dict[str, Any]) -> None:
        """So that a reader sees all of it or nothing."""
        content = json.dumps(end).encode().ljust(EXIT_ROOM_BYTES)
        for _ in range(EXIT_TRIES):
            try:
                kernel.write(f"{EXIT}.new", content, flags=0)
                os.rename(f"{EXIT}.new", EXIT)
            except FileNotFoundError:
                return  # the folder was removed: there is nobody to read it
            except OSError:
                signal.sigtimedwait((), EXIT_AGAIN_S)
            else:
                return


def journal(path: str, what: str, identity: tuple[str, int, int], devices: list[str]) -> None:
    """Add `start|pause|resume|end job attempt rank boottime_ns devices` to a journal outside Headrace."""
    if not path:
        return
    job, attempt, rank = identity
    line = f"{what} {job} {attempt} {rank} {kernel.boottime_ns()} {','.join(devices) or '-'}\n"
    with contextlib.suppress(OSError):
        kernel.write(path, line.encode(), os.O_APPEND)
