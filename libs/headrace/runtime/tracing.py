"""Decisions as spans: each from the clock reading it was made at to its place in the log.

Rule: told afterwards, under an id that is the log's position; nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace import telemetry
from headrace.events import Entry, tag_of


def record_decisions(service: str, entries: Iterable[Entry]) -> None:
    """Record those of the entries that are this service's decisions about a traced job."""
    if not telemetry.is_recording():
        return
    for entry in entries:
        header, event = entry.header, entry.event
        if header.decided_at_us and event.owner == service:
            telemetry.record(
                f"decide {tag_of(event)}",
                header.traceparent,
                span_id=f"{entry.position:016x}",
                start_us=header.decided_at_us,
                end_us=entry.recorded_at_us,
                attributes={
                    "headrace.job": header.correlation,
                    "headrace.position": entry.position,
                },
            )
