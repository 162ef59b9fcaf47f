"""Says every two seconds which workspaces were used through this gateway, or that none was.

Rule: a signal, never stored: whoever hears nothing does not know. What could not be said is said the
next time.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from headrace.bus import subjects
from headrace.bus.interface import Bus, BusError
from headrace.bus.uses import JOBS_MAX, Uses

SAY_S = 2.0

_ENCODER = msgspec.json.Encoder()


class UsesSaid:
    """The workspaces of one gateway that were used since it last said so."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._used: dict[str, None] = {}

    def use(self, job: str) -> None:
        """Somebody uses it now."""
        self._used[job] = None

    async def run(self) -> None:
        """Say it for ever."""
        while True:
            with contextlib.suppress(BusError):
                await self.say()
            await asyncio.sleep(SAY_S)

    async def say(self) -> None:
        """Say it now. Raises `BusError`."""
        jobs = tuple(self._used)[:JOBS_MAX]
        await self._bus.publish(subjects.USES, _ENCODER.encode(Uses(jobs=jobs)))
        for job in jobs:
            del self._used[job]
