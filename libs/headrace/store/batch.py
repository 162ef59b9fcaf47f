"""What every log holds an append to before it looks at it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.store.interface import (
    APPEND_EVENTS_MAX,
    EVENT_BYTES_MAX,
    NewEvent,
    StoreError,
)

REQUEST_KEPT_US = 30 * 86_400_000_000  # 30 days; `append` in SQL says the same


def check(events: Sequence[NewEvent]) -> None:
    """Raise `StoreError` for an append that no log takes, whatever it holds already."""
    if len(events) > APPEND_EVENTS_MAX:
        raise StoreError(f"an append has at most {APPEND_EVENTS_MAX} events, not {len(events)}")
    for event in events:
        if len(event.data) > EVENT_BYTES_MAX:
            raise StoreError(
                f"{event.type} has {len(event.data)} bytes; an event has at most {EVENT_BYTES_MAX}"
            )
        texts = (event.stream, event.project, event.request_source, event.request_key)
        if any("\0" in text for text in texts):
            raise StoreError(f"{event.type} has a zero character in its stream, project or request")
