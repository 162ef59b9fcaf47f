"""Draws a sweep's trials, once: what was drawn is recorded, as text.

Rule: the same seed draws the same trials.
"""

from __future__ import annotations

import math
import random

from headrace.documents import Tasks, draw


def drawn(tasks: Tasks, default_seed: str) -> tuple[dict[str, str], ...]:
    """The parameters of each task, under the sweep's own seed if it has one."""
    seed = default_seed if tasks.seed is None else tasks.seed
    return draw(tasks, Chance(random.Random(seed)))


class Chance:
    """The `Draws` of a pseudo-random generator. Six digits: what a person would write."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def below(self, bound: int) -> int:
        return self._generator.randrange(bound)

    def uniform(self, low: str, high: str) -> str:
        return f"{self._generator.uniform(float(low), float(high)):.6g}"

    def log_uniform(self, low: str, high: str) -> str:
        drawn = self._generator.uniform(math.log(float(low)), math.log(float(high)))
        return f"{math.exp(drawn):.6g}"
