"""Seeded histories of the whole platform: every promise kept, every fault fired.

A seed that fails is replayed with `make sim SEED=n`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from headrace.simulation.coverage import Coverage
from headrace.simulation.faults import KINDS, RUNTIME_POINTS
from headrace.simulation.many import outcomes
from headrace.simulation.parts import AGENT_POINTS
from headrace.simulation.situations import SITUATIONS
from headrace.simulation.world import simulate

SEEDS = int(os.environ.get("HEADRACE_SIMULATION_SEEDS", "200"))


@pytest.mark.timeout(580)
def test_every_history_keeps_every_promise_and_every_fault_fires() -> None:
    coverage = Coverage([*KINDS, *RUNTIME_POINTS, *AGENT_POINTS, *SITUATIONS])
    failed = {}
    for outcome in outcomes(range(SEEDS)):
        coverage.add(Counter(outcome.fired))
        if outcome.wrong:
            failed[outcome.seed] = outcome.wrong[:3]

    assert failed == {}
    assert coverage.rare() == [], f"\n{coverage}"


def test_the_same_seed_is_the_same_history_whatever_the_hash_seed() -> None:
    program = (
        "from headrace.simulation.world import simulate\n"
        "for seed in (3, 8): print(simulate(seed).digest)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "77")
    }

    assert len(told) == 1


def test_different_seeds_are_different_histories() -> None:
    assert len({simulate(seed).digest for seed in range(3)}) == 3


def test_a_fault_that_hardly_ever_fires_is_told() -> None:
    coverage = Coverage(["often", "rarely", "never"])
    for seed in range(100):
        coverage.add(Counter({"often": 2, "rarely": int(seed < 4)}))

    assert coverage.rare() == ["never", "rarely"]
    assert "often" in str(coverage)
