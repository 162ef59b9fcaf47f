"""Sweeps and arrays: which tasks a job has, and with which parameters.

Rule: chance comes from outside. `draw` is given the one who draws, and everything drawn is text,
recorded with the request.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Protocol

import msgspec

from headrace.documents.job_file import ObjectiveFile, Sweep
from headrace.documents.quantities import whole
from headrace.documents.refusing import not_yet, refuse
from headrace.events.asked import GOALS, Objective

TRIALS_MAX = 1_000
PARAMS_MAX = 64
CHOICES_MAX = 1_000
VALUE_LENGTH_MAX = 1_024
SEED_MAX = 2**53 - 1
METHODS = ("grid", "random", "list")
RANGES = ("uniform", "log_uniform", "integers")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")  # as `headrace.client.report` takes it
_ARRAY = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})(?:%([0-9]{1,9}))?")
_INTEGER = re.compile(r"[-+]?[0-9]{1,15}")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,15}(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,2})?")


class Draws(Protocol):
    """Who draws. Numbers are given and returned as text."""

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        ...

    def uniform(self, low: str, high: str) -> str:
        """A number between the two, each as likely as any other."""
        ...

    def log_uniform(self, low: str, high: str) -> str:
        """A number between the two, each order of magnitude as likely as any other."""
        ...


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Where a random trial takes a parameter from: uniform, log_uniform or integers (both ends
    included).
    """

    kind: str
    low: str
    high: str


class Tasks(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a sweep or an array, before anything is drawn.

    `listed` are trials that need no drawing; else `count` trials are drawn from `spaces`, under
    `seed` (None: whoever draws chooses one).
    """

    kind: str  # sweep | array
    count: int
    parallel: int = 0
    stop_after_failures: int = 0
    listed: tuple[dict[str, str], ...] = ()
    spaces: dict[str, Range | tuple[str, ...]] = {}
    seed: int | None = None
    params: tuple[str, ...] = ()
    objective: Objective | None = None


def draw(tasks: Tasks, draws: Draws) -> tuple[dict[str, str], ...]:
    """The parameters of each task, in order of its index."""
    if tasks.listed:
        return tasks.listed
    return tuple(
        {name: _drawn(space, draws) for name, space in tasks.spaces.items()}
        for _ in range(tasks.count)
    )


def values_of(tasks: Tasks, param: str) -> Iterator[str]:
    """The values of a parameter that are known before anything is drawn; ranges give numbers."""
    yield from (trial[param] for trial in tasks.listed if param in trial)
    space = tasks.spaces.get(param)
    if isinstance(space, tuple):
        yield from space


def array_of(value: str | int) -> Tasks:
    """`0..99`, or `0..99%8` for eight at a time. Raises `DocumentError`."""
    text = str(value)
    found = _ARRAY.fullmatch(text)
    if found is None:
        count = int(text) if text.isdecimal() and len(text) <= len(str(TRIALS_MAX)) else 0
        meant = f"0..{count - 1} is {count} tasks" if count else "0..99 is a hundred tasks"
        instead = f"{meant}, 0..99%8 eight at a time"
        refuse("array", "is not a range of indexes", value=text, instead=instead)
    first, last = int(found[1]), int(found[2])
    if first:
        not_yet("array", value=text, instead=f"0..{max(0, last - first)}")
    if last >= TRIALS_MAX:
        rule = f"an array has at most {TRIALS_MAX} tasks"
        refuse("array", rule, value=text, instead=f"0..{TRIALS_MAX - 1}")
    parallel = int(found[3]) if found[3] else 0
    if found[3] and not parallel:
        refuse("array", "none at a time would never end", value=text, instead=f"0..{last}%1")
    return Tasks(kind="array", count=last + 1, parallel=parallel, listed=({},) * (last + 1))


def sweep_of(sweep: Sweep) -> Tasks:
    """The trials of a sweep. Raises `DocumentError`."""
    parallel = whole("sweep.parallel", sweep.parallel, 0, TRIALS_MAX)
    failures = whole("sweep.stop_after_failures", sweep.stop_after_failures, 0, TRIALS_MAX)
    if sweep.method == "random":
        tasks = _random(sweep)
    elif sweep.method == "grid":
        tasks = _grid(sweep)
    elif sweep.method == "list":
        tasks = _list(sweep)
    else:
        rule = "is not a method" if sweep.method else "must be given"
        refuse("sweep.method", rule, value=sweep.method or None, instead=", ".join(METHODS))
    return msgspec.structs.replace(
        tasks,
        parallel=parallel,
        stop_after_failures=failures,
        objective=_objective(sweep.objective),
    )


def _objective(asked: ObjectiveFile | None) -> Objective | None:
    if asked is None:
        return None
    if not _METRIC.fullmatch(asked.metric):
        rule = "is the name of a value that trials report" if asked.metric else "must be given"
        refuse("sweep.objective.metric", rule, value=asked.metric or None, instead="accuracy")
    if asked.goal not in GOALS:
        rule = "is not one of the words known here" if asked.goal else "must be given"
        instead = " or ".join(GOALS)
        refuse("sweep.objective.goal", rule, value=asked.goal or None, instead=instead)
    return Objective(metric=asked.metric, goal=asked.goal)


def _random(sweep: Sweep) -> Tasks:
    if not isinstance(sweep.params, dict) or not sweep.params:
        refuse("sweep.params", "must be a mapping of names to values or ranges")
    count = whole("sweep.trials", sweep.trials or 0, 1, TRIALS_MAX)
    if sweep.seed is not None:
        whole("sweep.seed", sweep.seed, 0, SEED_MAX)
    names = _names(sweep.params)
    spaces = {name: _space(name, sweep.params[name]) for name in names}
    return Tasks(kind="sweep", count=count, spaces=spaces, seed=sweep.seed, params=tuple(names))


def _grid(sweep: Sweep) -> Tasks:
    if not isinstance(sweep.params, dict) or not sweep.params:
        refuse("sweep.params", "must be a mapping of names to lists of values")
    names = _names(sweep.params)
    choices = []
    for name in names:
        value = sweep.params[name]
        if not isinstance(value, list):
            refuse(f"sweep.params.{name}", "a grid needs a list of values", instead="[1, 2, 3]")
        choices.append(_choices(f"sweep.params.{name}", value))
    count = math.prod(len(values) for values in choices)
    if count > TRIALS_MAX:
        rule = f"the grid has {count} trials; at most {TRIALS_MAX} are taken"
        refuse("sweep.params", rule, instead="method: random")
    _check_count(sweep, count)
    trials = tuple(dict(zip(names, row, strict=True)) for row in itertools.product(*choices))
    return Tasks(kind="sweep", count=count, listed=trials, params=tuple(names))


def _list(sweep: Sweep) -> Tasks:
    if not isinstance(sweep.params, list) or not 1 <= len(sweep.params) <= TRIALS_MAX:
        rule = f"must be a list of 1 to {TRIALS_MAX} mappings, one for each trial"
        refuse("sweep.params", rule, instead="[{lr: 0.1}, {lr: 0.2}]")
    names = _names(sweep.params[0])
    trials = []
    for i, params in enumerate(sweep.params):
        if sorted(params) != sorted(names):
            rule = "every trial must have the same names"
            refuse(f"sweep.params[{i}]", rule, instead=", ".join(names))
        trials.append({n: _text(f"sweep.params[{i}].{n}", params[n]) for n in names})
    _check_count(sweep, len(trials))
    return Tasks(kind="sweep", count=len(trials), listed=tuple(trials), params=tuple(names))


def _check_count(sweep: Sweep, count: int) -> None:
    if sweep.trials != "" and whole("sweep.trials", sweep.trials, 1, TRIALS_MAX) != count:
        rule = f"method {sweep.method} makes {count} trials of these params"
        refuse("sweep.trials", rule, value=sweep.trials, instead="leave it out")


def _names(params: dict[str, Any]) -> list[str]:
    if not 1 <= len(params) <= PARAMS_MAX:
        refuse("sweep.params", f"a trial has 1 to {PARAMS_MAX} parameters")
    upper: dict[str, str] = {}
    for name in params:
        if not _NAME.fullmatch(name):
            rule = "a parameter's name has 1 to 41 letters, digits and _, no digit first"
            refuse("sweep.params", rule, value=name)
        if name.upper() in upper:
            rule = f"differs from {upper[name.upper()]} only in capitals"
            refuse(f"sweep.params.{name}", rule, instead="another name")
        upper[name.upper()] = name
    return list(params)


def _space(name: str, value: object) -> Range | tuple[str, ...]:
    field = f"sweep.params.{name}"
    if isinstance(value, list):
        return _choices(field, value)
    if not isinstance(value, dict) or len(value) != 1:
        rule = "must be a list of values, or one range"
        refuse(field, rule, instead="log_uniform: [1e-5, 1e-1]")
    ((kind, ends),) = value.items()
    if kind not in RANGES:
        refuse(f"{field}.{kind}", "is not a range", instead=", ".join(RANGES))
    if not isinstance(ends, list) or len(ends) != 2:
        refuse(f"{field}.{kind}", "has two ends", instead="[0, 1]")
    low, high = (_number(f"{field}.{kind}", end) for end in ends)
    if low >= high:
        refuse(f"{field}.{kind}", "the first end must be below the second")
    if kind == "log_uniform" and low <= 0:
        refuse(f"{field}.{kind}", "both ends must be above 0")
    if kind == "integers" and not all(_INTEGER.fullmatch(str(end)) for end in ends):
        refuse(f"{field}.{kind}", "both ends must be whole numbers")
    return Range(kind=kind, low=_text(field, ends[0]), high=_text(field, ends[1]))


def _number(field: str, value: object) -> Decimal:
    text = _text(field, value)
    if not _DECIMAL.fullmatch(text):
        refuse(field, "must be a number", value=value)
    return Decimal(text)


def _choices(field: str, values: list[Any]) -> tuple[str, ...]:
    if not 1 <= len(values) <= CHOICES_MAX:
        refuse(field, f"must have 1 to {CHOICES_MAX} values")
    return tuple(_text(f"{field}[{i}]", value) for i, value in enumerate(values))


def _text(field: str, value: object) -> str:
    """A parameter's value as the worker gets it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        refuse(field, "must be text, a number, true or false")
    text = repr(value) if isinstance(value, float) else str(value)
    if len(text) > VALUE_LENGTH_MAX or "\0" in text:
        refuse(field, f"a value has at most {VALUE_LENGTH_MAX} characters, none of them NUL")
    return text


def _drawn(space: Range | tuple[str, ...], draws: Draws) -> str:
    if isinstance(space, tuple):
        return space[draws.below(len(space))]
    if space.kind == "integers":
        return str(int(space.low) + draws.below(int(space.high) - int(space.low) + 1))
    if space.kind == "uniform":
        return draws.uniform(space.low, space.high)
    return draws.log_uniform(space.low, space.high)
