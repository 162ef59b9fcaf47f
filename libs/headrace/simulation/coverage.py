"""How often each fault and each crash point fired, and in how many seeds.

Rule: a fault that almost never fires proves nothing; a run over many seeds fails because of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

SHARE_PERCENT_MIN = 5  # of the seeds in which each fault and crash point must fire
SEEDS_MIN = 100  # fewer seeds say nothing about shares


class Coverage:
    """Counts over all seeds of a run. `names` are the ones that must fire."""

    def __init__(self, names: Iterable[str]) -> None:
        self.fired: Counter[str] = Counter()
        self.in_seeds: Counter[str] = Counter(dict.fromkeys(names, 0))
        self.seeds = 0

    def add(self, fired: Counter[str]) -> None:
        """Add what fired in one seed."""
        self.seeds += 1
        self.fired.update(fired)
        self.in_seeds.update({name for name, count in fired.items() if count})

    def rare(self) -> list[str]:
        """What fired in too few seeds to prove anything."""
        if self.seeds < SEEDS_MIN:
            return []
        least = self.seeds * SHARE_PERCENT_MIN
        return sorted(name for name, seeds in self.in_seeds.items() if seeds * 100 < least)

    def __str__(self) -> str:
        """A table: name, times fired, share of seeds."""
        lines = [f"{'fault or crash point':42} {'fired':>8} {'seeds':>6}"]
        for name in sorted(self.in_seeds):
            share = self.in_seeds[name] * 100 // max(1, self.seeds)
            lines.append(f"{name:42} {self.fired[name]:>8} {share:>5}%")
        return "\n".join(lines)
