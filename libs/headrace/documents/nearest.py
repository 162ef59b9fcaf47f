"""The known name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

COMPARED_MAX = 64  # characters of a name that are compared
BEGINNING_MIN = 3  # characters that are enough to mean the name that begins with them


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name fewest edits away, at most a third of its length, or else one that begins with
    it; empty when none is near. Of equally near ones that with the longest common beginning.
    """
    wanted = name[:COMPARED_MAX].lower()
    limit = max(1, len(wanted) // 3)
    ranked: list[tuple[int, int, str]] = []
    distance_to = _Distances(wanted)
    for other in known:
        compared = other[:COMPARED_MAX].lower()
        common = _common(wanted, compared)
        distance = limit + 1
        if abs(len(compared) - len(wanted)) <= limit:
            distance = distance_to(compared)
        if distance <= limit or common == len(wanted) >= BEGINNING_MIN:
            ranked.append((distance, -common, other))
    return min(ranked)[2] if ranked else ""


def edits(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words."""
    return _Distances(one)(other)


class _Distances:
    """The edits from one word to others.

    A column of the table of distances is two integers (Hyyrö 2003: the bits where it rises and where
    it falls), so that a letter of the other word costs a dozen operations however long the word is:
    a thousand names take 5 ms; cell by cell they take 60.
    """

    def __init__(self, word: str) -> None:
        self._length, self._last = len(word), 1 << max(0, len(word) - 1)
        self._all = (1 << len(word)) - 1
        self._where: dict[str, int] = {}
        for i, letter in enumerate(word):
            self._where[letter] = self._where.get(letter, 0) | 1 << i

    def __call__(self, other: str) -> int:
        if not self._length:
            return len(other)
        all_, last, where = self._all, self._last, self._where
        rises, falls, diagonal, before, distance = all_, 0, 0, 0, self._length
        for letter in other:
            same = where.get(letter, 0)
            swapped = (((~diagonal & same) << 1) & before) & all_
            diagonal = ((((same & rises) + rises) ^ rises) | same | falls | swapped) & all_
            risen, fallen = (falls | ~(diagonal | rises)) & all_, rises & diagonal
            distance += bool(risen & last) - bool(fallen & last)
            risen, fallen = (risen << 1 | 1) & all_, (fallen << 1) & all_
            rises, falls = (fallen | ~(diagonal | risen)) & all_, risen & diagonal
            before = same
        return distance


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))
