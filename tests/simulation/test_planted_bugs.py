"""Bugs planted on purpose: histories that cannot find them would prove nothing."""

from __future__ import annotations

import pytest

from headrace.simulation.many import outcomes
from headrace.simulation.mutations import PLANTED

SEEDS = 200
EXPECTED = {  # the promises that a planted bug is bound to break, whatever else it breaks
    "act-before-append": ("I2", "I3", "I4", "I11"),
    "ignore-reservations": ("I15",),
    "no-epoch-check": ("I3", "I4", "I11"),
    "outlive-the-lease": ("I11",),
    "release-before-proof": ("I4", "I11"),
}
LATELY = {  # the seed that found it when last looked: tried before all the others
    "act-before-append": 31,
    "ignore-reservations": 0,
    "no-epoch-check": 37,
    "outlive-the-lease": 5,
    "release-before-proof": 0,
}


@pytest.mark.parametrize("bug", sorted(PLANTED))
def test_a_planted_bug_is_found(bug: str) -> None:
    for seeds in ([LATELY[bug]], range(SEEDS)):
        for outcome in outcomes(seeds, bug):
            if any(wrong.startswith(EXPECTED[bug]) for wrong in outcome.wrong):
                return

    pytest.fail(f"{bug} was not found in {SEEDS} histories")
