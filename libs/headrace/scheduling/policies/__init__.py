"""Which of the machines that fit is taken: one policy per file, and this table.

Rule: a policy is a pure function of one `Trial` and of what is `Expected`; the lowest rank wins,
ties go to the machine's name. Adding a policy is its file and its line here.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.policies import binpack, fragmentation, spread
from headrace.scheduling.trials import Trial

Rank = Callable[[Trial, Expected], tuple[int, ...]]

POLICIES: dict[str, Rank] = {
    "binpack": binpack.rank,
    "fragmentation": fragmentation.rank,
    "spread": spread.rank,
}


def policy_of(name: str) -> Rank:
    """The policy of that name; bin-pack when there is none, as a log outlives the policies."""
    return POLICIES.get(name, binpack.rank)
