"""Says every two seconds that this instance is there, and whether it leads.

Rule: a signal for people who look: nothing is decided by it, and whoever misses one hears the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

import msgspec

from headrace.bus import subjects
from headrace.bus.interface import Bus, BusError
from headrace.bus.presence import SAY_S, Presence

_ENCODER = msgspec.json.Encoder()
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


async def say_presence(bus: Bus, said: Callable[[], Presence]) -> None:
    """Say it for ever."""
    while True:
        with contextlib.suppress(BusError):
            await bus.publish(subjects.PRESENCE, _ENCODER.encode(said()))
        await asyncio.sleep(SAY_S)


def resident_bytes() -> int:
    """What this process has in memory; 0 where the kernel does not tell."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES
    return 0
