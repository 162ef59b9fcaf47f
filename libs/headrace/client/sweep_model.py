"""What the gateway answers about the trials of a sweep."""

from __future__ import annotations

import msgspec


class TrialRow(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One trial: its parameters, what it reported last (decimals as text, by name), and how it went.
    One whose turn has not come is `submitted`.
    """

    trial: str
    state: str
    params: dict[str, str] = {}
    reported: dict[str, str] = {}
    ran_us: int = 0
    exit_code: int | None = None
    why: str = ""


class SweepRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep or an array with all of its trials, in order. `metric` and `goal` are what its trials are
    compared by, `best` the trial that leads. `unreported`: its metric is reported by no trial that has
    ended, although they reported others.
    """

    job: str
    state: str
    trials: list[TrialRow]
    metric: str = ""
    goal: str = ""
    best: str = ""
    unreported: bool = False
