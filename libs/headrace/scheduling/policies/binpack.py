"""Fill the fullest machine first, so that whole machines stay free for large gangs."""

from __future__ import annotations

from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.trials import Trial


def rank(trial: Trial, expected: Expected) -> tuple[int, ...]:
    """The machine with less free, whatever its size, among those that are as good otherwise."""
    del expected
    return (*trial.needs, trial.free[0])
