"""Take the node whose free GPUs stay the most useful to what is expected to come."""

from __future__ import annotations

from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.trials import Trial


def rank(trial: Trial, expected: Expected) -> tuple[int, ...]:
    """The less the node's waste grows the better; without GPUs, machines that have none first."""
    node = trial.node
    free_cpu_milli = node.cpu_milli - node.cpu_used_milli
    growth = expected.growth(trial.taken, node.free_milli, free_cpu_milli, trial.cpu_milli)
    return (expected.steps(growth), int(not trial.shares and bool(node.devices)))
