"""Sweeps that have an objective: which of their trials is the best.

Rule: a trial counts when it has succeeded, with what its program last reported. Values are decimals
as text, compared as such.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision


class SweepBest(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="sweep.best.v1"):
    """Of the `measured` trials of the sweep `job` so far `trial` has the best `value` of the metric,
    for this goal (`max` or `min`); before it `before` had `before_value`. Of equal ones the first to
    end stays.
    """

    owner: ClassVar[str] = "metrics"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = (
        "job", "project", "trial", "metric", "goal", "value", "measured", "before", "before_value",
    )  # fmt: skip
    job: str
    project: str
    trial: str
    metric: str
    goal: str
    value: str
    measured: int
    before: str = ""
    before_value: str = ""
