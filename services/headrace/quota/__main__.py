"""The process of the quota service: `python -m headrace.quota`."""

from __future__ import annotations

from headrace.quota.decide import DECIDER
from headrace.quota.requests import RECEIVERS, names_of
from headrace.quota.state import SETTINGS
from headrace.runtime.environment import Environment
from headrace.runtime.serve import serve
from headrace.runtime.service import Service


def service_of(environment: Environment) -> Service:
    """Quota, as this process runs it."""
    del environment
    return Service(
        decider=DECIDER,
        requests=RECEIVERS,
        names_of=names_of,
        settings=SETTINGS,
        niceness=5,  # who submits a job waits for admission
        turns_apart_s_max=0.04,
    )


if __name__ == "__main__":
    serve("quota", service_of)
