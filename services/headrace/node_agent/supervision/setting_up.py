"""What prepares a worker, once for all attempts on this node that are prepared alike.

    FOLDER.lock    held by whoever prepares it, and shared by whoever runs on it; not empty: it is
                   prepared
    FOLDER/        the job's own, where the setup's programs write

Rule: the lock is the truth: it goes with the process that holds it, whatever ends that. Nothing is
written into the folder from here, and nothing that is in it is believed.
"""

import contextlib
import fcntl
import os
from typing import Any, Protocol

from headrace.node_agent.supervision.beneath import Folder, remove

PREPARED = b"prepared\n"
READY, MINE, BUSY = "ready", "mine", "busy"
LIMIT_S = 3_600  # for a setup to end, unless the job says sooner (max_duration)
LOOK_S = 0.2  # at what another attempt prepares
SAID_BYTES, SAID_LINES = 4_096, 3  # of a failed setup's log, in the reason

Setup = dict[str, Any]
"""`command`, `folder` (absolute), `make` and `keep` (programs to run before and after, or none),
`lay` (the program that brings what was kept into another attempt)."""


class Preparing:
    """One attempt's part in it."""

    def __init__(self, setup: Setup, account: "list[Any] | None") -> None:
        self._folder, self._account = setup["folder"], account
        above = os.path.dirname(self._folder)
        os.makedirs(above, exist_ok=True)
        for way in (above, f"{above}/..", f"{above}/../..", f"{above}/../../.."):
            with contextlib.suppress(OSError):
                os.chmod(way, 0o711)  # noqa: S103  (to pass through, not to look)
        self._lock = os.open(f"{self._folder}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        os.utime(self._lock)  # used now

    def claim(self) -> str:
        """Whether it is ready, to be prepared by this attempt, or being prepared by another."""
        try:
            if self._is_done():
                fcntl.lockf(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return READY if self._is_done() else BUSY
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return BUSY
        if self._is_done():
            fcntl.lockf(self._lock, fcntl.LOCK_SH)
            return READY
        remove(self._folder)
        with Folder.at(os.path.dirname(self._folder)) as above:
            name = os.path.basename(self._folder)
            above.make(name)
            if self._account is not None:
                above.hand_over(name, *self._account[:2])
        return MINE

    def begun_ns(self) -> int:
        """Now, by the clock of the file system."""
        os.utime(self._lock)
        return os.fstat(self._lock).st_ctime_ns

    def end(self, *, well: bool) -> None:
        """It is prepared, and stays as long as anybody runs on it; or nothing of it is left."""
        if well:
            os.write(self._lock, PREPARED)
            fcntl.lockf(self._lock, fcntl.LOCK_SH)
        else:
            remove(self._folder)
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def _is_done(self) -> bool:
        return os.fstat(self._lock).st_size > 0

    @property
    def has_changes(self) -> bool:
        """Whether the setup left anything in the working directory."""
        with contextlib.suppress(OSError), Folder.at(self._folder) as folder:
            return folder.has("changes")
        return False


def set_up(setup: Setup, work: str, account: "list[Any] | None", shim: "Shim") -> bool:
    """See to it that what the worker needs is prepared, by this attempt or another; whether it is.
    Its result is the `account`'s (user, group).
    """
    preparing = Preparing(setup, account)
    while (claim := preparing.claim()) == BUSY:
        if not shim.rest(LOOK_S):
            return False
    if claim == READY:
        return not preparing.has_changes or shim.run_first([*setup["lay"], work])
    begun = str(preparing.begun_ns())
    steps = [setup["make"], setup["command"], [*setup["keep"], work, begun]]
    well = False
    try:
        well = all(shim.run_first(step) for step in steps if step)
    finally:
        preparing.end(well=well)
    return well


class Shim(Protocol):
    """What the attempt's supervisor does for it."""

    def run_first(self, command: "list[str]") -> bool:
        """Run a program as the worker would be, to its end; whether it ended well."""
        ...

    def rest(self, most_s: float) -> bool:
        """Let time pass; whether the attempt goes on."""
        ...


def judge(end: "dict[str, Any]", log: str, *, is_ours: bool) -> None:
    """Say in the attempt's end that its setup failed, with the last words of its log. `is_ours`: of
    the two limits, the job's own and that of every setup, the latter came first.
    """
    is_over = end["message"] == "max_duration reached"
    if not end["exit_code"] or (end["reason"] == "stopped" and not is_over):
        return  # somebody stopped it
    if is_over and is_ours:
        end["message"] = f"did not end within {LIMIT_S // 60} minutes"
    if is_ours or not is_over:
        end["reason"] = "setup"
    of_what = "" if end["reason"] == "setup" else "setup: "
    end["message"] = f"{of_what}{end['message']}{last_words(log)}"


def last_words(log: str) -> str:
    """The last lines of a log, on one."""
    with contextlib.suppress(OSError):
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - SAID_BYTES))
            said = file.read(SAID_BYTES).decode(errors="replace")
        lines = [line.strip() for line in said.splitlines()]
        said = " | ".join(line for line in lines[-SAID_LINES:] if line)
        return f": {said}" if said else ""
    return ""
