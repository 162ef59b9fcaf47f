"""How the projection follows who uses workspaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry, Event
from headrace.events.workspaces import WorkspaceSeen, WorkspaceWarned
from headrace.gateway.projection import Projection


def seen(projection: Projection, _entry: Entry, event: WorkspaceSeen) -> None:
    """What was said of it no longer holds; a warning follows if it is still not used."""
    job = projection.live.get(event.job)
    if job is not None and job.state == "running":
        job.why = ""


def warned(projection: Projection, _entry: Entry, event: WorkspaceWarned) -> None:
    """It ends soon unless somebody uses it."""
    job = projection.live.get(event.job)
    if job is not None and job.state == "running":
        job.why = event.message


FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {
    WorkspaceSeen: seen,
    WorkspaceWarned: warned,
}
