"""Ids of jobs, short and never repeated.

Rule: an id's suffix is made of the term of leadership and a count within it, mixed so that it looks
drawn. No two terms share an epoch, so nothing needs to be looked up, however long ago a job ended.
"""

from __future__ import annotations

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u
SHAPES = ((4, 6), (5, 8), (6, 10), (7, 12), (8, 14), (12, 24))  # letters, bits for the epoch

_BITS = 5  # per letter
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that multiplying by it can be undone


class Ids:
    """Makes suffixes for whoever leads."""

    def __init__(self) -> None:
        self._epoch = 0
        self._count = 0

    def next(self, epoch: int) -> str:
        """A suffix of 4 to 8 letters that was never given before (12 after 67 million in a term)."""
        if epoch != self._epoch:
            self._epoch, self._count = epoch, 0
        self._count += 1
        return suffix(epoch, self._count)


def suffix(epoch: int, count: int) -> str:
    """The shortest suffix that has room for both."""
    for letters, epoch_bits in SHAPES:
        bits = letters * _BITS
        count_bits = bits - epoch_bits
        if epoch < 1 << epoch_bits and count < 1 << count_bits:
            return _spelled(_mixed(epoch << count_bits | count, bits), letters)
    raise OverflowError(f"no id for count {count} in epoch {epoch}")


def _mixed(number: int, bits: int) -> int:
    """Another number of so many bits; different numbers stay different."""
    mask = (1 << bits) - 1
    for _ in range(2):
        number = number * _FACTOR & mask
        number ^= number >> bits // 2
    return number


def _spelled(number: int, letters: int) -> str:
    return "".join(LETTERS[number >> _BITS * i & 31] for i in range(letters))
