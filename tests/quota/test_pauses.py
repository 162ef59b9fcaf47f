"""Paused jobs compete for nothing and ask for nothing; resumed, they stand in line as if new."""

import pytest
from tests.quota.test_quota import History

from headrace.events.asked import Gang
from headrace.events.jobs import JobAdmitted, JobEligible, JobHeld
from headrace.events.pauses import JobPaused, JobPausing, JobResuming
from headrace.quota.state import HELD_GROUP


@pytest.fixture
def history():
    history = History()
    history.node(8)
    history.apply("research", kind="department", quota_milli=-1)
    history.apply("vision", parent="research", quota_milli=2000)
    return history


def pause(history, name):
    history.given(JobPausing(job=name, project="vision"))
    assert history.decided() == []
    history.given(JobPaused(job=name, project="vision", way="stop", attempt=1))
    return history.decided()


def resume(history, name):
    history.given(JobResuming(job=name, project="vision"))
    return history.decided()


def eligible(name):
    return JobEligible(job=name, project="vision")


def test_a_paused_job_asks_for_nothing_and_competes_again_when_it_is_resumed(history):
    history.job("a")
    history.decided()
    assert history.state.wanted == {"vision": 1000}

    assert pause(history, "a") == []
    assert history.state.wanted == {"vision": 0}

    assert resume(history, "a") == [eligible("a")]
    assert history.state.wanted == {"vision": 1000}


def test_a_paused_job_leaves_its_place_within_the_quota_to_who_waits_for_it(history):
    for name in "ab":
        history.job(name, gpus=2000, preemptible=False)
    history.decided()

    assert pause(history, "a") == [eligible("b")]
    (held,) = resume(history, "a")
    assert isinstance(held, JobHeld)
    history.finish("b")
    assert history.decided() == [eligible("a")]


def test_the_next_trial_of_a_sweep_competes_in_the_place_of_one_that_is_paused(history):
    history.given(
        JobAdmitted(
            job="s", project="vision", name="s", user="ada", gang=Gang(), requested_at=1,
            priority=40, tasks=2, tasks_parallel=1,
        )
    )  # fmt: skip
    for index in range(2):
        history.job(f"s/{index}", group="s", index=index)
    history.decided()

    assert pause(history, "s/0") == [eligible("s/1")]
    assert resume(history, "s/0") == [JobHeld(job="s/0", project="vision", reason=HELD_GROUP)]
    history.finish("s/1")
    assert history.decided() == [eligible("s/0")]


def test_a_pause_that_is_taken_back_in_time_changes_nothing(history):
    history.job("a")
    history.decided()
    history.given(JobPausing(job="a", project="vision"), JobResuming(job="a", project="vision"))

    assert history.decided() == []
    assert history.state.jobs["a"].eligible


def test_resumed_before_it_was_said_to_be_paused_a_job_competes_at_once(history):
    history.job("a")
    history.decided()
    history.given(JobPausing(job="a", project="vision"), JobResuming(job="a", project="vision"))
    history.given(JobPaused(job="a", project="vision", way="stop", attempt=1))

    assert history.decided() == [eligible("a")]


def test_a_job_that_ends_while_it_is_paused_is_counted_out_once(history):
    history.job("a", preemptible=False)
    history.decided()
    pause(history, "a")
    history.finish("a", outcome="cancelled")

    assert history.decided() == []
    assert history.state.wanted == {"vision": 0}
    assert history.state.firm["vision"].firm_milli == 0


@pytest.mark.parametrize("event", [JobPausing, JobResuming])
def test_what_names_no_job_changes_nothing(history, event):
    history.given(event(job="nobody", project="vision"))
    history.given(JobPaused(job="nobody", project="vision", way="waiting"))

    assert history.decided() == []
