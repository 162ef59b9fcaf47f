"""Jobs that run for as long as they may: nodes end them, and what they do not end is ended too."""

import pytest

from headrace.events.attempts import AttemptOverran


def overran(attempt=1):
    return AttemptOverran(job="a", project="default", attempt=attempt, ran_us=6_000_000)


def test_a_job_that_outlived_its_maximum_on_its_nodes_is_stopped(history):
    history.job("a", max_duration_us=5_000_000)
    history.settled()
    history.starts("a")
    history.settled()
    history.given(overran())
    history.cut()
    (evicted,) = history.settled()
    assert (evicted.reason, evicted.act.rule) == ("timeout", "max-duration")
    assert evicted.act.numbers == {"max_duration_us": 5_000_000, "ran_us": 6_000_000}
    history.exits("a", reason="stopped", exit_code=143)
    finished = history.settled()[-1]
    assert (finished.outcome, finished.reason) == ("failed", "timeout")


@pytest.mark.parametrize("step_us", [3_600_000_000, 365 * 86_400_000_000])
def test_a_step_of_the_databases_clock_ends_no_job(history, step_us):
    history.job("a", max_duration_us=5_000_000)
    history.settled()
    history.starts("a")
    history.settled()
    history.now_us += step_us
    history.node("n3")
    assert history.settled() == []
    history.exits("a")
    assert history.settled()[-1].outcome == "succeeded"


def test_an_attempt_that_has_ended_did_not_overrun_what_came_after_it(history):
    history.job("a", max_duration_us=5_000_000)
    history.settled()
    history.exits("a", reason="lost")
    history.settled()
    history.given(overran(attempt=1))
    assert history.settled() == []


def test_an_agent_that_held_the_maximum_duration_by_itself_is_believed(history):
    history.job("a", max_duration_us=5_000_000)
    history.settled()
    history.starts("a")
    history.exits("a", reason="stopped", exit_code=124)
    assert history.settled()[-1].reason == "timeout"
