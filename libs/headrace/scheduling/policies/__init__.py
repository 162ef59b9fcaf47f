"""Which of the nodes that fit is taken: one policy per file, and this table.

Rule: a policy is a pure `rank(free_milli, capacity_milli) -> int`; the lowest rank wins, ties go to
the node's name. Adding a policy is its file and its line here.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.scheduling.policies import binpack, spread

Rank = Callable[[int, int], int]

POLICIES: dict[str, Rank] = {"binpack": binpack.rank, "spread": spread.rank}

__all__ = ["POLICIES", "Rank"]
