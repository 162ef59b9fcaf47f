"""Fill the fullest node first, so that whole nodes stay free for large gangs."""

from __future__ import annotations

from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.trials import Trial


def rank(trial: Trial, expected: Expected) -> tuple[int, ...]:
    """Shared devices before fresh ones, then the node with less free, whatever its size; without
    GPUs, leave the machines that have them alone and take the fewest free cores.
    """
    del expected
    node = trial.node
    if not trial.shares:
        return (int(bool(node.devices)), node.cpu_milli - node.cpu_used_milli)
    return (int(trial.opens), node.free_milli)
