"""How an attempt in a container ended, in the words of the log.

Rule: pure. What Headrace asked for comes first; then what the engine did; then the exit code.
"""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from headrace.node_agent.containers.engine import State
from headrace.node_agent.containers.plan import ENGINES_SIGNAL
from headrace.node_agent.folders import Exit

TIMEOUT_EXIT_CODE = 124  # as `timeout` has it
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as a shell has it
SIGNALS_MAX = 64
REASON_LENGTH_MAX = 300
ENGINES_CODE = 128 + signal.SIGRTMIN + ENGINES_SIGNAL  # no job ends itself so
_MIB = 1_048_576
_TINI = re.compile(rb"^\[FATAL tini \([0-9]+\)\] exec (.+) failed: (.+)$", re.MULTILINE)
_DENIED = re.compile(
    rb"permission denied|read-only file system|are you root|superuser|not writable", re.IGNORECASE
)
SETUP_DENIED = (
    ": the job's account writes below $HOME, not in the image's own folders; install there (as pip"
    " does by itself), or build it into the image"
)
_MISSING = ("not found", "no such file")


class Asked(NamedTuple):
    """What was asked of it, and what was seen meanwhile."""

    stop: str = ""
    timed_out: bool = False
    setup_failed: bool = False
    setup_said: bytes = b""  # the last of its output
    engine_ended: bool = False  # while it ran, and with it what it runs
    memory_bytes: int = 0


def exit_of(state: State, asked: Asked, *, started_at_us: int, now_us: int) -> Exit:
    """The end of a container that has ended."""
    code = state.exit_code
    reason, message = "exited", message_of(code)
    if asked.timed_out:
        reason, code, message = "stopped", TIMEOUT_EXIT_CODE, "max_duration reached"
    elif asked.stop:
        reason, message = "stopped", f"stopped: {asked.stop}"
    elif asked.engine_ended or code == ENGINES_CODE:
        reason, code = "lost", 0
        message = (
            "its container was ended through its engine: by docker stop, or as the engine ended"
            " (live-restore in its daemon.json keeps what runs)"
        )
    elif state.oom and code:
        limit = -(-asked.memory_bytes // _MIB)
        reason, message = "oom", "out of memory"
        if asked.memory_bytes:
            message += f": its limit is {limit} MiB (resources.memory), held by docker"
    elif asked.setup_failed:
        reason, message = "start-failed", f"setup: {message}"
        message += SETUP_DENIED if _DENIED.search(asked.setup_said) else ""
    return Exit(
        reason=reason,
        exit_code=code,
        message=message,
        started_at_us=started_at_us,
        ended_at_us=now_us,
    )


def message_of(exit_code: int) -> str:
    """The exit code in words; an engine tells an end by signal N as 128 + N."""
    number = exit_code - 128
    if 0 < number <= SIGNALS_MAX:
        return f"killed by signal {number} ({signal.strsignal(number)})"
    return f"exit code {exit_code}" if exit_code else ""


def not_executed(state: State, output: bytes) -> str:
    """Why the engine's first process could not become the job's; empty if it could."""
    if state.exit_code not in (NOT_EXECUTABLE, NOT_FOUND):
        return ""
    found = _TINI.search(output)
    return ": ".join(part.decode(errors="replace") for part in found.groups()) if found else ""


def not_started(image: str, why: str) -> Exit:
    """The engine does not create or start it."""
    said = " ".join(why.split())
    code = NOT_FOUND if any(word in said.lower() for word in _MISSING) else NOT_EXECUTABLE
    said = said.rpartition("unable to start container process: ")[2][:REASON_LENGTH_MAX]
    message = f"cannot start in image {image}: {said.removesuffix(': unknown')}"
    return Exit(reason="start-failed", exit_code=code, message=message)
