"""What an agent reported as the fact that the log keeps.

Rule: whatever a node says is bounded here, in length and in number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.bus.agents import Report
from headrace.events import Fact
from headrace.events.attempts import AttemptExited, AttemptStarted
from headrace.events.nodes import DeviceFaulted
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
)

ID_LENGTH_MAX = 128  # of a job's or a project's id
REPORTED_MAX = 16  # names of what a worker said of itself
MESSAGE_LENGTH_MAX = 1_000  # of what a person reads about an exit


def fact_of(node: str, incarnation: str, report: Report) -> Fact | None:
    """The report as the log keeps it; None for one that says nothing the log knows."""
    if max(len(report.job), len(report.project), len(report.device)) > ID_LENGTH_MAX:
        return None
    if report.what == "faulted":
        return _fault(node, incarnation, report)
    make = _FACTS.get(report.what)
    if make is None:
        return None
    about: dict[str, Any] = {
        "job": report.job,
        "project": report.project,
        "attempt": report.attempt,
        "rank": report.rank,
        "node": node,
        "incarnation": incarnation,
        "report": report.sequence,
        "at_us": report.at_us,
    }
    return make(report, about)


def _started(report: Report, about: dict[str, Any]) -> Fact:
    enforcement, isolation = report.enforcement or "none", report.isolation[:ID_LENGTH_MAX]
    return AttemptStarted(**about, enforcement=enforcement, isolation=isolation)


def _exited(report: Report, about: dict[str, Any]) -> Fact:
    return AttemptExited(
        **about,
        reason=(report.reason or "exited")[:ID_LENGTH_MAX],
        exit_code=report.exit_code,
        message=report.message[:MESSAGE_LENGTH_MAX],
        reported=_bounded(report.reported),
        outputs=report.outputs[:ID_LENGTH_MAX],
        outputs_files=report.outputs_files,
        outputs_bytes=report.outputs_bytes,
        process=report.process,
        checkpoint=report.checkpoint[:ID_LENGTH_MAX],
    )


def _bounded(reported: dict[str, str]) -> dict[str, str]:
    """No more of what a program said than an agent may pass on."""
    first = sorted(reported.items())[:REPORTED_MAX]
    return {name[:ID_LENGTH_MAX]: value[:ID_LENGTH_MAX] for name, value in first}


def _fault(node: str, incarnation: str, report: Report) -> DeviceFaulted:
    return DeviceFaulted(
        node=node,
        device=report.device,
        incarnation=incarnation,
        report=report.sequence,
        action=report.action,
        text=report.message[:MESSAGE_LENGTH_MAX],
        code=report.code,
        at_us=report.at_us,
    )


def _locked(report: Report, about: dict[str, Any]) -> Fact:
    return AttemptLocked(**about, asked_at=report.asked_at, gpu_bytes=max(0, report.gpu_bytes))


def _paused(report: Report, about: dict[str, Any]) -> Fact:
    return AttemptPaused(**about, asked_at=report.asked_at, took_us=max(0, report.took_us))


def _resumed(report: Report, about: dict[str, Any]) -> Fact:
    return AttemptResumed(**about, asked_at=report.asked_at, took_us=max(0, report.took_us))


def _pause_failed(report: Report, about: dict[str, Any]) -> Fact:
    message = report.message[:MESSAGE_LENGTH_MAX]
    return AttemptPauseFailed(
        **about, asked_at=report.asked_at, message=message, broken=report.broken
    )


_FACTS: dict[str, Callable[[Report, dict[str, Any]], Fact]] = {
    "started": _started,
    "exited": _exited,
    "locked": _locked,
    "paused": _paused,
    "resumed": _resumed,
    "pause_failed": _pause_failed,
}
