"""How closely turns may follow each other.

Rule: what comes to a loop that had little to do is seen to at once; where much comes, what came during
a turn and the rest after it is the next one's.
"""

from __future__ import annotations

import asyncio

SHARE = 1 / 5  # of the time, for turns with little in them each
REST_S_LEAST = 0.025  # from turn to turn: an answer takes two of them, and more turns cost more CPU
CREDIT_S = 0.03  # of turns: about ten, more than a short job has in one service
ENOUGH = 96  # waiting events make a turn worth its price: what each costs outweighs the turn itself


class Rests:
    """Between turns: a token bucket of time, which fills with `share` of the time that passes. A loop that
    had little to do begins its turns at once; one that goes round and round for a few events each begins
    one every `least_s`, until its bucket has something again or enough waits.
    """

    def __init__(self, share: float = SHARE, least_s: float = REST_S_LEAST) -> None:
        self._share, self._least_s = share, least_s
        self._credit_s = CREDIT_S
        self._took_s = 0.0
        self._until_s = 0.0  # to when the credit is counted

    async def before(self, waiting: int) -> None:
        """Return when the next turn may begin, for which so many events wait now."""
        now_s = asyncio.get_running_loop().time()
        self._credit_s = min(CREDIT_S, self._credit_s + (now_s - self._until_s) * self._share)
        self._until_s = now_s
        if self._credit_s < 0 and waiting < ENOUGH:
            await asyncio.sleep(max(0.0, self._least_s - self._took_s))

    def took(self, began_s: float) -> None:
        """A turn that began then (by the loop's time) has ended."""
        self._took_s = asyncio.get_running_loop().time() - began_s
        self._credit_s = max(-CREDIT_S, self._credit_s - self._took_s)
