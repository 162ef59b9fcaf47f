"""Which trial of a sweep is the best so far, by what trials last reported.

Rule: what has succeeded counts, with the value of the first of its workers that reported one; what is
no finite number does not. Values are compared exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import msgspec

from headrace.decider import Draft
from headrace.events import Entry
from headrace.events.asked import Objective
from headrace.events.attempts import AttemptExited
from headrace.events.jobs import JobAdmitted, JobFinished
from headrace.events.sweeps import SweepBest

_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?")  # as agents pass them on


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a live trial's last attempt reported of the metric, first by `rank`."""

    group: str
    attempt: int = 0
    rank: int = 0
    value: str = ""


class Best(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The trial with the best value; no trial before the first."""

    trial: str = ""
    value: str = ""


class Sweep(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep with an objective: of the `measured` trials the `best`, since the event at `position`,
    and the one that was `told`.
    """

    project: str
    objective: Objective
    traceparent: str = ""
    measured: int = 0
    best: Best = Best()
    told: Best = Best()
    position: int = 0
    ended: bool = False


class Sweeps(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Those that have not ended, and their live trials that reported something."""

    sweeps: dict[str, Sweep] = {}
    trials: dict[str, Trial] = {}


def decide_best(state: Sweeps) -> Iterator[Draft]:
    """What is not told yet, the longest known first."""
    untold = [(s.position, name) for name, s in state.sweeps.items() if s.best != s.told]
    for position, name in sorted(untold):
        sweep = state.sweeps[name]
        event = SweepBest(
            job=name,
            project=sweep.project,
            trial=sweep.best.trial,
            metric=sweep.objective.metric,
            goal=sweep.objective.goal,
            value=sweep.best.value,
            measured=sweep.measured,
            before=sweep.told.trial,
            before_value=sweep.told.value,
        )
        yield Draft(event=event, causation=position, traceparent=sweep.traceparent)


def admitted(state: Sweeps, entry: Entry, event: JobAdmitted) -> None:
    """A sweep, or one of its trials."""
    if event.objective is not None and event.tasks:
        state.sweeps[event.job] = Sweep(
            project=event.project,
            objective=event.objective,
            traceparent=entry.header.traceparent,
        )
    elif event.group in state.sweeps:
        state.trials[event.job] = Trial(group=event.group)


def exited(state: Sweeps, _entry: Entry, event: AttemptExited) -> None:
    """A worker has said its last; a later attempt counts, and of one the lowest rank."""
    trial = state.trials.get(event.job)
    sweep = state.sweeps.get(trial.group) if trial is not None else None
    if trial is None or sweep is None or event.attempt < trial.attempt:
        return
    value = event.reported.get(sweep.objective.metric, "")
    is_first = event.attempt > trial.attempt or not trial.value or event.rank < trial.rank
    if is_first and (_is_number(value) or event.attempt > trial.attempt):
        state.trials[event.job] = Trial(
            group=trial.group,
            attempt=event.attempt,
            rank=event.rank,
            value=value if _is_number(value) else "",
        )


def finished(state: Sweeps, entry: Entry, event: JobFinished) -> None:
    """A trial that counts, or the whole sweep."""
    trial, sweep = state.trials.pop(event.job, None), state.sweeps.get(event.job)
    if sweep is not None:
        sweep.ended = True
        _forget(state, event.job, sweep)
    of = state.sweeps.get(trial.group) if trial is not None else None
    if trial is None or of is None or not trial.value or event.outcome != "succeeded":
        return
    of.measured += 1
    if not of.best.trial or _is_better(trial.value, of.best.value, of.objective.goal):
        of.best, of.position = Best(trial=event.job, value=trial.value), entry.position


def told(state: Sweeps, _entry: Entry, event: SweepBest) -> None:
    """It is on record."""
    sweep = state.sweeps.get(event.job)
    if sweep is not None:
        sweep.told = Best(trial=event.trial, value=event.value)
        _forget(state, event.job, sweep)


def _forget(state: Sweeps, name: str, sweep: Sweep) -> None:
    if sweep.ended and sweep.told == sweep.best:
        del state.sweeps[name]


def _is_better(value: str, than: str, goal: str) -> bool:
    ours, theirs = Fraction(value), Fraction(than)
    return ours > theirs if goal == "max" else ours < theirs


def _is_number(value: str) -> bool:
    return _NUMBER.fullmatch(value) is not None
