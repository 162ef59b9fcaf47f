"""Draws a sweep's trials, once, so that the log has them: parameters as strings."""

from __future__ import annotations

import itertools
import math
import random

from headrace.documents.job_file import Sweep
from headrace.documents.plan import TRIALS_MAX
from headrace.events import Refusal

_RANGES = ("uniform", "log_uniform", "int_uniform")


def draw(sweep: Sweep, chance: random.Random) -> tuple[dict[str, str], ...] | Refusal:
    """The trials of a sweep. `chance` is seeded by `sweep.seed` when there is one."""
    if sweep.seed is not None:
        chance = random.Random(sweep.seed)
    if isinstance(sweep.params, list):
        return tuple({name: _text(v) for name, v in trial.items()} for trial in sweep.params)
    refusal = _check(sweep)
    if refusal is not None:
        return refusal
    if sweep.method == "random":
        return tuple(
            {name: _drawn(choices, chance) for name, choices in sweep.params.items()}
            for _ in range(sweep.trials)
        )
    lists = [choices for choices in sweep.params.values() if isinstance(choices, list)]
    if math.prod(len(choices) for choices in lists) > TRIALS_MAX:
        return Refusal(field="sweep", rule=f"at most {TRIALS_MAX} trials")
    grid = itertools.product(*lists)
    return tuple(
        dict(zip(sweep.params, (_text(v) for v in values), strict=True)) for values in grid
    )


def _check(sweep: Sweep) -> Refusal | None:
    assert isinstance(sweep.params, dict)
    if sweep.method == "list":
        return Refusal(field="sweep.params", rule="method: list takes a list of mappings")
    for name, choices in sweep.params.items():
        field = f"sweep.params.{name[:60]}"
        if isinstance(choices, list):
            if not choices:
                return Refusal(field=field, rule="has no values")
        elif sweep.method == "grid":
            return Refusal(field=field, rule="a grid takes lists of values")
        elif list(choices)[0:1] != list(choices) or next(iter(choices)) not in _RANGES:
            return Refusal(field=field, rule=f"is a list, or one of {', '.join(_RANGES)}")
        else:
            kind, bounds = next(iter(choices.items()))
            low_ok = len(bounds) == 2 and bounds[0] < bounds[1]
            if not low_ok or (kind == "log_uniform" and bounds[0] <= 0):
                return Refusal(field=field, rule=f"{kind} takes two rising bounds")
    return None


def _drawn(
    choices: list[str | int | float] | dict[str, list[int | float]], chance: random.Random
) -> str:
    if isinstance(choices, list):
        return _text(chance.choice(choices))
    kind, (low, high) = next(iter(choices.items()))
    if kind == "int_uniform":
        return str(chance.randint(int(low), int(high)))
    if kind == "uniform":
        return _text(chance.uniform(low, high))
    return _text(math.exp(chance.uniform(math.log(low), math.log(high))))


def _text(value: str | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
