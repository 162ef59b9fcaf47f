"""How many requests without a token of ours are taken, by where they come from.

Rule: a token bucket per address; addresses are forgotten, the one not heard for longest first.
"""

from __future__ import annotations

from collections.abc import Callable

BURST = 100  # at once: a rack that joins from behind one address
REFILL_PER_S = 5
ADDRESSES_MAX = 10_000


class Limiter:
    """The buckets of one gateway. `monotonic_s` is a clock that only goes forward."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._left: dict[str, tuple[float, float]] = {}  # how many may come, as of when

    def takes(self, address: str) -> bool:
        """Whether one more request from there is taken now."""
        now_s = self._monotonic_s()
        left, at_s = self._left.pop(address, (float(BURST), now_s))
        left = min(float(BURST), left + (now_s - at_s) * REFILL_PER_S)
        is_taken = left >= 1
        self._left[address] = (left - 1 if is_taken else left, now_s)
        if len(self._left) > ADDRESSES_MAX:
            del self._left[next(iter(self._left))]
        return is_taken
