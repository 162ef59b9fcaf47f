"""In which order the processes of one worker leave their GPUs and come back: all of them, or none.

Rule: pure. All are locked before one is checkpointed, all restored before one is unlocked. What is
to be done follows from how they stand, so that whoever was interrupted, or is another agent by now,
simply goes on. One failure on the way out leads back; one on the way back breaks the worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.node_agent.pausing import CHECKPOINTED, FAILED, LOCKED, RUNNING

PAUSED = "paused"  # wanted of a worker: all of its processes are checkpointed
_TO = {
    LOCKED: {RUNNING: "lock", CHECKPOINTED: "restore"},
    PAUSED: {RUNNING: "lock", LOCKED: "checkpoint"},
    RUNNING: {CHECKPOINTED: "restore", LOCKED: "unlock"},
}
_FIRST = ("lock", "restore", "checkpoint", "unlock")  # who does the later ones waits for all others


class Step(NamedTuple):
    """One thing to do to one process."""

    what: str
    pid: int


class Way(NamedTuple):
    """Where a worker is being taken; `failed` is why it was turned back ("": it was not)."""

    wanted: str
    failed: str = ""
    is_broken: bool = False


def steps(wanted: str, states: Mapping[int, str]) -> Iterator[Step]:
    """What can be done now, each process one step; nothing when all are where they should be."""
    due = {pid: _TO[wanted].get(states[pid], "") for pid in sorted(states)}
    first = next((what for what in _FIRST if what in due.values()), "")
    return (Step(what, pid) for pid, what in due.items() if what and what == first)


def turned(way: Way, why: str) -> Way:
    """Where to after a failure."""
    if way.wanted == RUNNING:
        return way._replace(failed=way.failed or why, is_broken=True)
    return Way(wanted=RUNNING, failed=why)


def broken(states: Mapping[int, str]) -> str:
    """Why these processes can go nowhere any more; empty when they can."""
    lost = [str(pid) for pid in sorted(states) if states[pid] == FAILED]
    return f"the driver gave up process {', '.join(lost)}" if lost else ""
