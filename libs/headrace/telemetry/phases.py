"""A job's phases as spans, told afterwards from the log.

Rule: no span stays open while a job waits or runs. At a phase's end it is recorded with the times
of the log, under an id that is a function of job, attempt and phase: a repeat is the same span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from headrace.telemetry import spans


class Phase(NamedTuple):
    """One phase of an attempt: queued, starting, running; times in µs since 1970."""

    name: str
    start_us: int
    end_us: int


def record_phases(job: str, attempt: int, traceparent: str, phases: Iterable[Phase]) -> None:
    """Record these phases of one attempt under the job's trace."""
    for phase in phases:
        spans.record(
            phase.name,
            traceparent,
            span_id=phase_id(job, attempt, phase.name),
            start_us=phase.start_us,
            end_us=phase.end_us,
            attributes={"headrace.job": job, "headrace.attempt": attempt},
        )


def phase_id(job: str, attempt: int, phase: str) -> str:
    """The span id of a phase, 16 hex."""
    return hashlib.sha256(f"{job}\0{attempt}\0{phase}".encode()).hexdigest()[:16]
