"""The process of the metrics service: `python -m headrace.metrics`."""

from __future__ import annotations

from headrace.metrics import exposition
from headrace.metrics.decide import DECIDER
from headrace.metrics.signals import Signals
from headrace.runtime.environment import Environment
from headrace.runtime.serve import serve
from headrace.runtime.service import Service


def service_of(environment: Environment) -> Service:
    """Metrics, as this process runs it."""
    del environment
    signals = Signals()
    return Service(
        decider=DECIDER,
        shell=signals,
        metrics=lambda state: exposition.text(state, signals.busy_permille, signals.progress.all()),
        niceness=10,  # it only follows
        turns_apart_s_max=0.04,
        relay=True,
    )


if __name__ == "__main__":
    serve("metrics", service_of)
