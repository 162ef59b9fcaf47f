"""How many requests are taken: without a token of ours by where they come from, and changes by how
many wait for an answer.

Rule: a token bucket per address; addresses are forgotten, the one not heard for longest first. Of
changes no more wait than are answered in time: one more is told at once to come again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from headrace.gateway.errors import TooMany

BURST = 100  # at once: a rack that joins from behind one address
REFILL_PER_S = 5
ADDRESSES_MAX = 10_000
CHANGES_MAX = 256  # that wait for the service that owns the noun: half a second's at 500 a second
CHANGES_OF_ONE_MAX = 128  # of the same asker: nobody can take all the room


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


class Room:
    """How many changes wait now, and whose they are."""

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._count = 0

    @contextlib.contextmanager
    def taken(self, asker: str) -> Iterator[None]:
        """Room for one change for as long as it is asked for. Raises `TooMany`."""
        own = self._waiting.get(asker, 0)
        if own >= CHANGES_OF_ONE_MAX:
            raise TooMany(
                f"{own} requests of {asker} wait for an answer; send this one again later"
            )
        if self._count >= CHANGES_MAX:
            raise TooMany(f"{self._count} requests wait for an answer; send this one again later")
        self._waiting[asker], self._count = own + 1, self._count + 1
        try:
            yield
        finally:
            self._count -= 1
            left = self._waiting.pop(asker) - 1
            if left:
                self._waiting[asker] = left
