"""Many histories, on as many cores as there are.

Rule: a history never depends on what ran before it in the same process; results come in the order
of their seeds.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterable, Iterator

from headrace.simulation import mutations
from headrace.simulation.world import Outcome, simulate

SEEDS_AT_ONCE = 4  # handed to a worker process in one go


def outcomes(seeds: Iterable[int], bug: str = "") -> Iterator[Outcome]:
    """The outcome of each seed's history, with a planted bug or without."""
    work = [(seed, bug) for seed in seeds]
    cores = min(len(os.sched_getaffinity(0)), len(work))
    if cores <= 1:
        yield from map(_outcome, work)
        return
    with multiprocessing.get_context("spawn").Pool(cores, _quiet) as pool:
        yield from pool.imap(_outcome, work, SEEDS_AT_ONCE)


def _outcome(work: tuple[int, str]) -> Outcome:
    seed, bug = work
    return simulate(seed, mutations.PLANTED[bug] if bug else mutations.none)


def _quiet() -> None:
    logging.disable(logging.CRITICAL)
