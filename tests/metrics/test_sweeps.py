"""Which trial of a sweep is the best, as far as trials have succeeded."""

import pytest

from headrace.events.asked import Gang, Objective
from headrace.events.attempts import AttemptExited
from headrace.events.jobs import JobAdmitted, JobFinished
from headrace.events.sweeps import SweepBest

from .test_metrics import History

SWEEP = "lr-k3f9"


def admitted(job, **named):
    return JobAdmitted(
        job=job, project="vision", name="lr", user="ada", gang=Gang(), requested_at=1, priority=40,
        **named,
    )  # fmt: skip


def sweep(goal="max", trials=4):
    found = History()
    objective = Objective(metric="accuracy", goal=goal)
    found.given(admitted(SWEEP, tasks=trials, objective=objective))
    found.given(*(admitted(f"{SWEEP}/{i}", group=SWEEP, index=i) for i in range(trials)))
    return found


def exited(index, value, rank=0, attempt=1, metric="accuracy"):
    reported = {metric: value} if value else {}
    return AttemptExited(
        job=f"{SWEEP}/{index}", project="vision", attempt=attempt, rank=rank, node="n1",
        incarnation="i", report=1, reason="exited", reported=reported,
    )  # fmt: skip


def finished(index, outcome="succeeded"):
    return JobFinished(job=f"{SWEEP}/{index}", project="vision", outcome=outcome)


def ends(history, index, value, outcome="succeeded"):
    history.given(exited(index, value), finished(index, outcome))
    return history.decided()


def test_each_better_trial_is_told_with_what_it_was_compared_with():
    history = sweep()
    (first,) = ends(history, 2, "0.81")
    assert first == SweepBest(
        job=SWEEP, project="vision", trial=f"{SWEEP}/2", metric="accuracy", goal="max",
        value="0.81", measured=1,
    )  # fmt: skip
    assert ends(history, 0, "0.8") == []
    (better,) = ends(history, 1, "8.2e-1")
    assert (better.trial, better.value, better.measured) == (f"{SWEEP}/1", "8.2e-1", 3)
    assert (better.before, better.before_value) == (f"{SWEEP}/2", "0.81")
    assert ends(history, 3, "0.82") == []  # of equal ones the first stays


def test_less_is_better_where_that_is_the_goal():
    history = sweep("min")
    ends(history, 0, "0.3")
    (better,) = ends(history, 1, "-2")
    assert better.trial == f"{SWEEP}/1"


@pytest.mark.parametrize("value", ["", "nan", "inf", "-inf", "many", "1e9999"])
def test_what_is_no_finite_number_does_not_count(value):
    assert ends(sweep(), 0, value) == []


def test_what_did_not_succeed_does_not_count():
    history = sweep()
    assert ends(history, 0, "0.99", "failed") == []
    assert [told.value for told in ends(history, 1, "0.1")] == ["0.1"]


def test_the_first_worker_of_the_last_attempt_that_reported_it_counts():
    history = sweep()
    history.given(exited(0, "0.9"), exited(0, "", attempt=2), exited(0, "0.5", rank=2, attempt=2))
    history.given(exited(0, "0.4", rank=1, attempt=2), exited(0, "0.6", rank=3, attempt=2))
    history.given(exited(0, "0.7", attempt=1), finished(0))
    assert [told.value for told in history.decided()] == ["0.4"]


def test_the_best_is_told_though_the_sweep_has_ended_and_nothing_of_it_is_kept():
    history = sweep(trials=1)
    history.given(exited(0, "0.9"), finished(0))
    history.given(JobFinished(job=SWEEP, project="vision", outcome="succeeded"))
    assert [told.trial for told in history.decided()] == [f"{SWEEP}/0"]
    assert (history.state.sweeps.sweeps, history.state.sweeps.trials) == ({}, {})


def test_a_sweep_without_an_objective_has_no_best():
    history = History()
    history.given(admitted(SWEEP, tasks=1), admitted(f"{SWEEP}/0", group=SWEEP))
    assert ends(history, 0, "0.9") == []
    assert history.state.sweeps.trials == {}
