"""How closely turns may follow each other.

Rule: where few events come, each is seen to at once; where many come, those of a moment are one turn's,
and the next begins so long after it as what it took makes worth. After a long turn nobody pauses.
"""

from __future__ import annotations

import asyncio

# A turn costs what it costs for one event as for twenty. Jobs one after the other are 120 events a second,
# and somebody waits for each; 300 submissions a second are 900, and turns of their own for each of them
# took a third more CPU.
FEW_PER_S = 250
BURST = 50  # events after a rest: a few jobs at once
TURNS_APART = (
    4  # times what the last one took, which is most of what it cost here: readers have more
)


class Pace:
    """A token bucket of events, which fills with `FEW_PER_S`: while it is empty a turn begins
    `TURNS_APART` times as long after the one before as that took, at most `apart_s_max`; else at once.
    """

    def __init__(self, apart_s_max: float) -> None:
        self._apart_s_max = apart_s_max
        self._room = float(BURST)
        self._began_s = self._took_s = 0.0

    async def turn(self) -> None:
        """Return when the next turn may begin. For a loop that waits alone."""
        now_s = asyncio.get_running_loop().time()
        self._room = min(BURST, self._room + (now_s - self._began_s) * FEW_PER_S)
        due_s = self._began_s + min(TURNS_APART * self._took_s, self._apart_s_max)
        if self._room < 0 and now_s < due_s:
            await asyncio.sleep(due_s - now_s)
        self._began_s = asyncio.get_running_loop().time()

    def took(self, events: int) -> None:
        """The turn that began last has ended, and had so many events."""
        self._room = max(-BURST, self._room - events)
        self._took_s = asyncio.get_running_loop().time() - self._began_s
