"""Take the emptiest machine first, so that jobs disturb each other least."""

from __future__ import annotations

from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.trials import Trial


def rank(trial: Trial, expected: Expected) -> tuple[int, ...]:
    """The larger free part of the machine, among those that are as good otherwise."""
    del expected
    free, have = trial.free
    return (*trial.needs, -(free * 1000 // max(1, have)))
