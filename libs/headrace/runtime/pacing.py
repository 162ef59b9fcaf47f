"""How closely turns may follow each other.

Rule: where few events come, each is seen to at once; where many come, those of a moment are one turn's,
and the pause until the next is as long as the last turn makes it worth.
"""

from __future__ import annotations

import asyncio

# A turn costs what it costs for one event as for twenty. Jobs one after the other are 120 events a second,
# and somebody waits for each; 300 submissions a second are 900, and turns of their own for each of them
# took a third more CPU.
FEW_PER_S = 250
BURST = 50  # events after a rest: a few jobs at once
PAUSES = 4  # times as long as the last turn took, most of which is the log's and the readers' work


class Pace:
    """A token bucket of events, which fills with `FEW_PER_S`: while it is empty a turn begins
    `PAUSES` times as long after the one before as that took, at most `pause_s_max`; else at once.
    """

    def __init__(self, pause_s_max: float) -> None:
        self._pause_s_max = pause_s_max
        self._room = float(BURST)
        self._began_s = self._ended_s = 0.0

    async def turn(self) -> None:
        """Return when the next turn may begin. For a loop that waits alone."""
        now_s = asyncio.get_running_loop().time()
        self._room = min(BURST, self._room + (now_s - self._began_s) * FEW_PER_S)
        due_s = self._ended_s + min(PAUSES * (self._ended_s - self._began_s), self._pause_s_max)
        if self._room < 0 and now_s < due_s:
            await asyncio.sleep(due_s - now_s)
        self._began_s = asyncio.get_running_loop().time()

    def took(self, events: int) -> None:
        """The turn that began last has ended, and had so many events."""
        self._room = max(-BURST, self._room - events)
        self._ended_s = asyncio.get_running_loop().time()
