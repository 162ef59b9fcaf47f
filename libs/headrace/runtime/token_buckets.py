"""How often somebody may do something: a burst at once, and then so many a second.

Rule: a token bucket for each who comes; of those that are remembered, the one not heard for longest is
forgotten first, which gives it a full bucket.
"""

from __future__ import annotations

from collections.abc import Callable

REMEMBERED_MAX = 10_000


class TokenBuckets:
    """The buckets of one door. `monotonic_s` is a clock that only goes forward."""

    def __init__(self, burst: int, refill_per_s: int, monotonic_s: Callable[[], float]) -> None:
        self._burst, self._refill_per_s = float(burst), refill_per_s
        self._monotonic_s = monotonic_s
        self._left: dict[str, tuple[float, float]] = {}  # how many may come, as of when

    def takes(self, who: str) -> bool:
        """Whether one more of theirs is taken now."""
        now_s = self._monotonic_s()
        left, at_s = self._left.pop(who, (self._burst, now_s))
        left = min(self._burst, left + (now_s - at_s) * self._refill_per_s)
        is_taken = left >= 1
        self._left[who] = (left - 1 if is_taken else left, now_s)
        if len(self._left) > REMEMBERED_MAX:
            del self._left[next(iter(self._left))]
        return is_taken
