"""Take the emptiest node first, so that jobs disturb each other least."""

from __future__ import annotations

from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.policies import binpack
from headrace.scheduling.trials import Trial


def rank(trial: Trial, expected: Expected) -> tuple[int, ...]:
    """Shared devices before fresh ones, then the larger free part of the node; without GPUs, as
    bin-pack does.
    """
    node = trial.node
    if not trial.shares:
        return binpack.rank(trial, expected)
    return (int(trial.opens), -(node.free_milli * 1000 // max(1, node.capacity_milli)))
