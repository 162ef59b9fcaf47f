"""The log's time, estimated between its own readings of it.

Rule: never below anything already folded, so that `now` cannot run behind the log. A reading that is far
from the estimate is believed only when it stays so: between a step of the database's clock and what the log
makes up for it, time is read that never was.
"""

from __future__ import annotations

from collections.abc import Callable

STEP_US = 60_000_000  # as far from the estimate no reading is by itself
BELIEVED_AFTER_US = 10_000_000


class Clock:
    """Estimates the log's time from its last reading and a monotonic clock."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._offset_us: int | None = None
        self._floor_us = 0
        self._doubted_since_us = 0

    def set(self, database_us: int) -> None:
        """Take a reading that has just arrived."""
        elapsed_us = self._elapsed_us()
        offset_us = database_us - elapsed_us
        if self._offset_us is None or abs(offset_us - self._offset_us) <= STEP_US:
            self._offset_us, self._doubted_since_us = offset_us, 0
        elif not self._doubted_since_us:
            self._doubted_since_us = elapsed_us
        elif elapsed_us - self._doubted_since_us >= BELIEVED_AFTER_US:
            self._offset_us, self._doubted_since_us = offset_us, 0

    def not_below(self, recorded_at_us: int) -> None:
        """Something recorded at this time has been folded."""
        self._floor_us = max(self._floor_us, recorded_at_us)

    def now_us(self) -> int:
        """The log's time now, in microseconds since the epoch."""
        return max(self._elapsed_us() + (self._offset_us or 0), self._floor_us)

    def _elapsed_us(self) -> int:
        return int(self._monotonic_s() * 1_000_000)
