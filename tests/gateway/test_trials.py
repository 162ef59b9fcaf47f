"""The trials of a sweep, as one table."""

import msgspec
import pytest
from tests.gateway.histories import (
    admitted,
    finished,
    placed,
    released,
    requested,
    started,
    worker_exited,
)

from headrace.client import NotFound
from headrace.events.asked import Objective
from headrace.events.sweeps import SweepBest


def trial(index, attempt=1, outcome="succeeded", **reported):
    job = f"lr-x/{index}"
    exited = worker_exited(job, attempt=attempt)
    end = () if outcome is None else (finished(job, outcome=outcome, attempt=attempt),)
    again = outcome is None
    return (
        *(placed(job, attempt=attempt), started(job, attempt=attempt)),
        msgspec.structs.replace(exited, reported={name: str(v) for name, v in reported.items()}),
        *(released(job, again=again), *end),
    )


def sweep(*, metric="accuracy"):
    params = tuple({"lr": str(lr)} for lr in (1, 2, 3, 4))
    asked = requested(
        "lr-x", trials=params, kind_of_group="sweep", objective=Objective(metric=metric)
    )
    tasks = (admitted(f"lr-x/{index}", group="lr-x", index=index) for index in range(3))
    return asked, admitted("lr-x", tasks=4, objective=Objective(metric=metric)), *tasks


async def seen(world, *events, job="lr"):
    await world.gateway.follower.reached(await world.append(*events))
    return await world.call(world.client().trials, job)


async def test_each_trial_has_its_parameters_and_what_its_last_attempt_reported(world):
    best = SweepBest(
        job="lr-x", project="vision", trial="lr-x/1", metric="accuracy", goal="max", value="0.9",
        measured=2,
    )  # fmt: skip
    found = await seen(
        world,
        *sweep(),
        *trial(0, accuracy=0.5, loss=2),
        *trial(1, outcome=None, accuracy=0.1, loss=9),
        *trial(1, attempt=2, accuracy=0.9),
        best,
    )
    assert (found.job, found.metric, found.goal, found.best) == (
        "lr-x",
        "accuracy",
        "max",
        "lr-x/1",
    )
    assert not found.unreported
    assert [(row.state, row.params["lr"], row.reported) for row in found.trials] == [
        ("succeeded", "1", {"accuracy": "0.5", "loss": "2"}),
        ("succeeded", "2", {"accuracy": "0.9"}),
        ("waiting", "3", {}),
        ("submitted", "4", {}),
    ]


async def test_a_metric_that_no_trial_reports_is_said(world):
    assert not (await seen(world, *sweep(metric="acuracy"), *trial(2))).unreported
    assert (await seen(world, *trial(0, accuracy=0.5))).unreported


async def test_a_single_job_has_no_trials(world):
    with pytest.raises(NotFound, match="hello-a is no sweep and no array"):
        await seen(world, requested(), admitted(), job="hello")
