"""How the projection follows which trial of a sweep is the best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry, Event
from headrace.events.sweeps import SweepBest
from headrace.gateway.projection import Projection


def best(projection: Projection, _entry: Entry, event: SweepBest) -> None:
    """So far; the last may be told when the sweep has ended."""
    job = projection.job(event.job)
    if job is not None:
        job.best = f"{event.trial} {event.metric}={event.value}"


FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {SweepBest: best}
