"""What to do about one attempt, from what is wanted, what is seen and what was reported.

Rule: pure. The same call is right after every event, restart and lost message; doing nothing is
right when nothing changed. Losing contact changes nothing here, so it stops nothing.
"""

from __future__ import annotations

import msgspec

from headrace.bus.agents import Assignment
from headrace.node_agent.machine import AttemptKey, End, Paused, Seen


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal holds of an attempt. `settled` says that the log has all of it."""

    started: bool = False
    exited: bool = False
    settled: bool = False
    phase_at: int = 0  # the last wish of which it was said what came of it


class Start(msgspec.Struct, frozen=True):
    """Start this worker."""

    assignment: Assignment


class Stop(msgspec.Struct, frozen=True):
    """Ask this worker to end."""

    reason: str
    grace_s: int
    signal: str = ""


class Move(msgspec.Struct, frozen=True):
    """Take this worker to the phase that is wanted of it."""

    assignment: Assignment


class ReportMoved(msgspec.Struct, frozen=True):
    """Report what came of it."""

    pause: Paused


class ReportStarted(msgspec.Struct, frozen=True):
    """Report that the worker runs, since `at_us`."""

    at_us: int


class ReportExited(msgspec.Struct, frozen=True):
    """Report how the worker ended."""

    end: End


class Forget(msgspec.Struct, frozen=True):
    """Drop everything kept about this attempt."""


Action = Start | Stop | Move | ReportMoved | ReportStarted | ReportExited | Forget
NOTHING_REPORTED = Reported()


def reconcile(
    assignment: Assignment | None, seen: Seen | None, reported: Reported, rebooted_at: int
) -> list[Action]:
    """The actions, in order, that bring one attempt closer to what is wanted.

    `assignment` is None when the desired state does not name the attempt. Grants up to position
    `rebooted_at` were made before the machine last booted: their processes are gone.
    """
    if seen is None:
        return _not_here(assignment, reported, rebooted_at)
    if seen.end is not None:
        return _ended(assignment, seen.end, reported)
    actions: list[Action] = []
    if seen.phase == "running" and not reported.started:
        actions.append(ReportStarted(seen.started_at_us))
    is_sooner = assignment is not None and assignment.grace_s < seen.grace_s
    if assignment is not None and assignment.stop and (not seen.stopping or is_sooner):
        reason, signal = assignment.stop_reason or "stopped", assignment.stop_signal
        actions.append(Stop(reason, assignment.grace_s, signal))
    elif assignment is not None and assignment.phase and not seen.stopping:
        actions.extend(_moved(assignment, seen, reported))
    return actions


def key_of(assignment: Assignment) -> AttemptKey:
    """The attempt that this assignment is about."""
    return AttemptKey(assignment.job, assignment.attempt, assignment.rank)


def _moved(assignment: Assignment, seen: Seen, reported: Reported) -> list[Action]:
    """What placement wants of its devices; each wish is answered once."""
    if seen.phase != "running" or assignment.phase_at <= reported.phase_at:
        return []
    if seen.pause is None or seen.pause.phase_at != assignment.phase_at:
        return [Move(assignment)]
    return [ReportMoved(seen.pause)]


def _not_here(assignment: Assignment | None, reported: Reported, rebooted_at: int) -> list[Action]:
    if reported.exited:
        return [Forget()] if assignment is None and reported.settled else []
    if reported.started:
        return [ReportExited(End(reason="lost", message="its folder is gone from the node"))]
    if assignment is None:
        return []
    if assignment.stop:
        reason = assignment.stop_reason or "stopped"
        return [ReportExited(End(reason="stopped", message=f"stopped before it started: {reason}"))]
    if assignment.position <= rebooted_at:
        return [ReportExited(End(reason="lost", message="the node was started anew"))]
    return [Start(assignment)]


def _ended(assignment: Assignment | None, end: End, reported: Reported) -> list[Action]:
    if reported.exited:
        return [Forget()] if assignment is None and reported.settled else []
    if end.started_at_us and not reported.started:
        return [ReportStarted(end.started_at_us), ReportExited(end)]
    return [ReportExited(end)]
