"""Take the machine whose free GPUs stay the most useful to what is expected to come."""

from __future__ import annotations

from headrace.scheduling.banks import DEVICE_MILLI
from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.trials import Trial


def rank(trial: Trial, expected: Expected) -> tuple[int, ...]:
    """At once before later, then the less the machine's waste grows the better, then the less it
    splits of what requests for several GPUs need; without GPUs, machines that have none first.
    """
    machine, taken = trial.machine, trial.taken
    free_milli, free_cpu_milli, _ = machine.free_later
    growth = expected.growth(taken, free_milli, free_cpu_milli, trial.place.amounts[1])
    wholes = [free for free, _ in taken].count(DEVICE_MILLI)
    split = expected.split(machine.wholes_later, wholes) if wholes else 0
    return (trial.waits, expected.steps(growth), split, trial.strays)
