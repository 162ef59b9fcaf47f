"""Reads parts of the log, believing no column that the chain does not hold.

Rule: every event that is returned chains onto the one before it as the store has it. Whoever changes
an event would have to write every later hash anew, which readers that follow the log notice.
"""

from __future__ import annotations

from headrace.store.interface import (
    GENESIS,
    READ_EVENTS_MAX,
    Forked,
    Store,
    Stored,
    follows,
)


async def read_chained(store: Store, after: int, limit: int = READ_EVENTS_MAX) -> list[Stored]:
    """Up to `limit` events after the position `after`, in order.

    Raises `Forked` when one of them does not chain onto the event before it, and `Unavailable`.
    """
    before = min(after, 1)  # one more is read than asked for, unless there is none
    page = await store.read(after - before, limit + before)
    hash_ = GENESIS
    if before and page:
        after, hash_ = page[0].position, page[0].hash
    for event in page[before:]:
        if not follows(event, after, hash_):
            raise Forked(f"position {event.position} does not follow {after}")
        after, hash_ = event.position, event.hash
    return page[before:]


async def read_one(store: Store, position: int) -> Stored:
    """The event at a position that the log has. Raises `Forked` and `Unavailable`."""
    events = await read_chained(store, position - 1, 1)
    if not events or events[0].position != position:
        raise Forked(f"the log has no position {position}")
    return events[0]
