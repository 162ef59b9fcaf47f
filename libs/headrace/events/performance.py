"""Performance: what was measured of running jobs and of the fleet they run on.

Rule: integers in the unit of the name; a prediction is made from these and from nothing else.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Fact


class PerformanceMeasured(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="performance.measured.v1"
):
    """How fast one attempt made its steps: `step_time_us` is the median over `samples` steps.

    `model` is the GPUs' model; `gpus` counts them over all `nodes`. `level` is the narrowest level
    of the topology that all its nodes share ("": none).
    """

    owner: ClassVar[str] = "metrics"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = (
        "job", "project", "attempt", "model", "nodes", "gpus", "step_time_us", "samples",
    )  # fmt: skip
    job: str
    project: str
    attempt: int
    model: str
    nodes: int
    gpus: int
    step_time_us: int
    samples: int
    pool: str = ""
    level: str = ""


class PerformanceBandwidth(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="performance.bandwidth.v1"
):
    """What two nodes of a pool that share a domain of `level`, and none of a narrower one, can send
    each other: the median over `samples` pairs, in bytes per second.
    """

    owner: ClassVar[str] = "metrics"
    stream: ClassVar[str] = "pool/{pool}"
    pool: str
    level: str
    bytes_per_s: int
    samples: int
