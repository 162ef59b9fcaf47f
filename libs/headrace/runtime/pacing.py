"""How closely what costs something each time may follow: turns, and requests on their way.

Rule: who comes alone waits for nobody; where many come, those of a moment go together.
"""

from __future__ import annotations

import asyncio


class Pace:
    """At most one every `apart_s`; after a rest the first `free` follow freely."""

    def __init__(self, apart_s: float, free: int) -> None:
        self._apart_s = apart_s
        self._ahead_s = apart_s * (free - 1)  # so much earlier than its time one may be
        self._next_s = 0.0  # when the next one's time is

    def due_s(self, now_s: float) -> float:
        """When the next one may begin, which is taken to do so. Times are the loop's."""
        begins_s = max(now_s, self._next_s - self._ahead_s)
        self._next_s = max(self._next_s, begins_s) + self._apart_s
        return begins_s

    async def turn(self) -> None:
        """Return when the next one may begin. For a loop that waits alone."""
        now_s = asyncio.get_running_loop().time()
        wait_s = self.due_s(now_s) - now_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)


class Company:
    """Many who go on together: whoever comes while others wait goes with them."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._waiting: asyncio.Event | None = None

    async def go(self) -> bool:
        """Return when the next of them may go on, and whether that is in company."""
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            now_s = loop.time()
            due_s = self._pace.due_s(now_s)
            if due_s <= now_s:
                return False
            self._waiting = asyncio.Event()
            loop.call_at(due_s, self._gone)
        await self._waiting.wait()
        return True

    def _gone(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.set()
