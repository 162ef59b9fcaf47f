"""How admission follows which workspaces nobody uses.

Rule: total. Only what there is something to say about is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.admission.idle_rules import is_unused
from headrace.admission.state import State, Unused
from headrace.events import Entry, Event
from headrace.events.workspaces import WorkspaceSeen, WorkspaceWarned


def seen(state: State, entry: Entry, event: WorkspaceSeen) -> None:
    """It was used, or not for so long."""
    job = state.live.get(event.job)
    state.unused.pop(event.job, None)
    if job is not None and not job.cancelling and is_unused(event, job.idle_us):
        state.unused[event.job] = Unused(seen=event, position=entry.position)


def warned(state: State, _entry: Entry, event: WorkspaceWarned) -> None:
    """That was said."""
    unused = state.unused.get(event.job)
    if unused is not None:
        unused.judged = True


FOLDS: dict[type[Event], Callable[[State, Entry, Any], None]] = {
    WorkspaceSeen: seen,
    WorkspaceWarned: warned,
}
