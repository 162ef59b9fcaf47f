"""Database time, estimated between the log's own readings of it.

Rule: never below anything already folded, so that `now` cannot run behind the log.
"""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Estimates the database's clock from its last reading and a monotonic clock."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._offset_us = 0
        self._floor_us = 0

    def set(self, database_us: int) -> None:
        """Take a reading that has just arrived."""
        self._offset_us = database_us - self._elapsed_us()

    def not_below(self, recorded_at_us: int) -> None:
        """Something recorded at this time has been folded."""
        self._floor_us = max(self._floor_us, recorded_at_us)

    def now_us(self) -> int:
        """Database time now, in microseconds since the epoch."""
        return max(self._elapsed_us() + self._offset_us, self._floor_us)

    def _elapsed_us(self) -> int:
        return int(self._monotonic_s() * 1_000_000)
