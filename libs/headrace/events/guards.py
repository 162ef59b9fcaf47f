"""What an event books on devices, for the log's own counters.

Rule: deltas are a pure function of the event. The log refuses an append that takes a counter above
its limit; decrements always pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from headrace.events.base import Event
from headrace.events.gangs import GangGrown, GangPlaced, GangReleased, Share, WorkersReleased
from headrace.events.pauses import GangPaused, GangResumed

DEVICE_MILLI = 1000  # a whole device


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """One counter's change: `gpu/<uuid>` by `delta`, never above `limit`."""

    key: str
    delta: int
    limit: int = DEVICE_MILLI


def guards_of(event: Event) -> tuple[Guard, ...]:
    """The counters this event changes, summed per key and sorted by key (the lock order)."""
    if isinstance(event, GangPlaced | GangGrown | GangResumed):
        shares = [share for worker in event.workers for share in worker.devices]
        return _summed(shares, 1)
    if isinstance(event, GangReleased | WorkersReleased | GangPaused):
        return _summed(event.shares, -1)
    return ()


def _summed(shares: Iterable[Share], sign: int) -> tuple[Guard, ...]:
    totals: Counter[str] = Counter()
    for share in shares:
        totals[f"gpu/{share.device}"] += sign * share.milli
    return tuple(Guard(key=key, delta=totals[key]) for key in sorted(totals))
