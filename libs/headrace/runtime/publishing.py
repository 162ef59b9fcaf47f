"""Tells the other services what was committed, as fast as the bus can.

Rule: publishing is a hint; whoever misses it reads the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.bus import subjects
from headrace.bus.interface import Bus, BusError
from headrace.runtime import log_messages
from headrace.store.interface import Stored


async def publish(bus: Bus, events: Sequence[Stored]) -> None:
    """Send the events, each on its `headrace.log.<type>`; give up silently when the bus is away."""
    try:
        for run in log_messages.runs(events):
            await bus.publish(subjects.log(run[0].type), log_messages.encode(*run))
        await asyncio.sleep(0)  # the client writes it now, not when this turn has ended
    except BusError:
        return
