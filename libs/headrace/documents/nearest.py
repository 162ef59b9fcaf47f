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
    for other in known:
        compared = other[:COMPARED_MAX].lower()
        common = _common(wanted, compared)
        distance = limit + 1
        if abs(len(compared) - len(wanted)) <= limit:
            distance = edits(wanted, compared)
        if distance <= limit or common == len(wanted) >= BEGINNING_MIN:
            ranked.append((distance, -common, other))
    return min(ranked)[2] if ranked else ""


def edits(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))
