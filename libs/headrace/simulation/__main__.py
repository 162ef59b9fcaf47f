"""Runs histories: `python -m headrace.simulation --seed 42`, or `--seeds 200`.

Rule: one seed tells everything about itself; many tell what fired how often, and which seed failed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from headrace.simulation import mutations
from headrace.simulation.coverage import Coverage
from headrace.simulation.faults import KINDS, RUNTIME_POINTS
from headrace.simulation.many import outcomes
from headrace.simulation.parts import AGENT_POINTS
from headrace.simulation.situations import SITUATIONS
from headrace.simulation.world import Outcome, simulate

FAILED_MAX = 5  # seeds that are told about before a run gives up


def main(arguments: list[str]) -> int:
    """0 when every promise was kept in every history and every fault fired often enough."""
    parser = argparse.ArgumentParser(prog="python -m headrace.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one history and tell all about it")
    parser.add_argument("--seeds", type=int, default=200, help="run so many histories")
    parser.add_argument("--first", type=int, default=0, help="the first of those")
    parser.add_argument("--bug", choices=sorted(mutations.PLANTED), help="plant this bug")
    parser.add_argument("--logs", action="store_true", help="show what the services log")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if chosen.logs else logging.CRITICAL + 1)
    if chosen.seed is not None:
        return _one(chosen.seed, chosen.bug)
    return _many(range(chosen.first, chosen.first + chosen.seeds), chosen.bug)


def _one(seed: int, bug: str | None) -> int:
    outcome = simulate(seed, mutations.PLANTED[bug] if bug else mutations.none)
    print(*outcome.told, sep="\n")
    for name, count in sorted(outcome.fired.items()):
        print(f"  {name:42} {count:>6}")
    print(f"seed {seed}: {outcome.events} events in {outcome.virtual_s} s, {outcome.digest[:16]}")
    _tell_wrong(outcome)
    return 1 if outcome.wrong else 0


def _many(seeds: range, bug: str | None) -> int:
    began_s = time.perf_counter()
    coverage = Coverage([*KINDS, *RUNTIME_POINTS, *AGENT_POINTS, *SITUATIONS])
    failed: list[int] = []
    events = 0
    for outcome in outcomes(seeds, bug or ""):
        coverage.add(Counter(outcome.fired))
        events += outcome.events
        if outcome.wrong:
            failed.append(outcome.seed)
            replay = f"python -m headrace.simulation --seed {outcome.seed}"
            print(f"seed {outcome.seed} failed; replay it: {replay}")
            _tell_wrong(outcome)
        if len(failed) >= FAILED_MAX:
            break
    took_s = time.perf_counter() - began_s
    print(coverage)
    print(f"{coverage.seeds} histories, {events} events, {took_s:.1f} s, {len(failed)} failed")
    rare = coverage.rare()
    if rare:
        print(f"fired too rarely to prove anything: {', '.join(rare)}")
    return 1 if failed or rare else 0


def _tell_wrong(outcome: Outcome) -> None:
    for wrong in outcome.wrong:
        print(f"  WRONG {wrong}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
