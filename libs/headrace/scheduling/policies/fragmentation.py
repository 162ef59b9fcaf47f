"""Take the machine whose free GPUs stay the most useful to what is expected to come."""

from __future__ import annotations

from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.trials import Trial


def rank(trial: Trial, expected: Expected) -> tuple[int, ...]:
    """At once before later, then the less the machine's waste grows the better; without GPUs,
    machines that have none first.
    """
    free_milli, free_cpu_milli, _ = trial.machine.free_later
    cpu_milli = trial.place.amounts[1]
    growth = expected.growth(trial.taken, free_milli, free_cpu_milli, cpu_milli)
    return (trial.waits, expected.steps(growth), trial.strays)
