"""What queues used lately: GPU time that counts half as much after every half-life.

Rule: integers only. Time goes by in windows, so many to a half-life; what was used in a window
counts in full when it closes and then decays window by window. What the open window has is not
looked at, so that usage is the same at every moment of a window.
"""

from __future__ import annotations

import msgspec

from headrace.scheduling.shares import USAGE_ONE

HALF_LIFE_S = 7 * 86_400  # unless somebody says otherwise
MIN_RUNTIME_S = 60  # of what others may take for what was used, unless somebody says otherwise
STRENGTH_MILLI = 0  # what is over quota is divided by weight alone, until somebody says so
WINDOWS = 256  # to a half-life
SHIFT = 62
ONE = 1 << SHIFT


class Meter(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one queue and everything below it uses: `milli` GPUs now. `open` is what the window of
    `at_ms` has until then, `closed` what all before it have, decayed to its beginning; both in GPU
    microseconds.
    """

    milli: int = 0
    at_ms: int = 0
    open: int = 0
    closed: int = 0

    def add(self, milli: int, now_ms: int, window_ms: int) -> None:
        """From now on it uses so much more."""
        now_ms = max(now_ms, self.at_ms)
        window = now_ms // window_ms
        if window > self.at_ms // window_ms:
            self.closed = self.closed_by(window, window_ms)
            self.open = self.milli * (now_ms - window * window_ms)
        else:
            self.open += self.milli * (now_ms - self.at_ms)
        self.at_ms = now_ms
        self.milli += milli

    def closed_by(self, window: int, window_ms: int) -> int:
        """What is used by the beginning of a window that is not before its own."""
        own = self.at_ms // window_ms
        passed = window - own
        if passed <= 0:
            return self.closed
        first = self.open + self.milli * ((own + 1) * window_ms - self.at_ms)
        steady = self.milli * window_ms * together(passed - 1) >> SHIFT
        return decayed(self.closed, passed) + decayed(first, passed - 1) + steady

    def retime(self, old_window_ms: int, window_ms: int) -> None:
        """Windows are of another length from now on: what it used counts as if closed just now."""
        if old_window_ms != window_ms:
            self.closed, self.open = self.closed + self.open, 0


def window_ms_of(half_life_s: int) -> int:
    """How long a window is."""
    return max(1, half_life_s * 1000 // WINDOWS)


def part_of(closed: int, total_milli: int, window_ms: int) -> int:
    """What that is of a fleet of this size, used all the time, in parts of `USAGE_ONE`."""
    everything = total_milli * window_ms * ALWAYS >> SHIFT
    return min(USAGE_ONE, closed * USAGE_ONE // everything) if everything > 0 else 0


def decayed(amount: int, windows: int) -> int:
    """What is left of an amount after so many windows."""
    halves, rest = divmod(windows, WINDOWS)
    return (amount * POWERS[rest] >> SHIFT) >> halves


def together(windows: int) -> int:
    """The sum of what each of so many windows counts, the last in full, in parts of `ONE`."""
    halves, rest = divmod(windows, WINDOWS)
    return ALWAYS - (ALWAYS >> halves) + (SUMS[rest] >> halves)


def _powers() -> list[int]:
    """Two to the power of minus each of the windows of a half-life."""
    one = ONE // 2
    for _ in range(WINDOWS.bit_length() - 1):
        one = _root_of(one * ONE)
    powers = [ONE]
    for _ in range(WINDOWS - 1):
        powers.append(powers[-1] * one >> SHIFT)
    return powers


def _root_of(square: int) -> int:
    """The largest integer whose square is not above that (Newton's method, from above)."""
    root = 1 << (square.bit_length() + 1) // 2
    while (nearer := (root + square // root) // 2) < root:
        root = nearer
    return root


POWERS = _powers()
SUMS = [sum(POWERS[:count]) for count in range(WINDOWS)]
ALWAYS = 2 * sum(POWERS)
