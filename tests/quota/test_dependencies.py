"""Jobs that come after others are held until these have ended."""

from headrace.events.asked import Dependency
from headrace.events.jobs import JobEligible, JobFinished, JobHeld
from headrace.events.pauses import JobPaused, JobPausing, JobResuming
from headrace.quota.decide import DECIDER

from .test_quota import History


def waiting(*dependencies, **fields):
    run = History()
    run.apply("vision")
    for job, _ in dependencies:
        run.job(job)
    run.decided()
    run.job("late", after=tuple(Dependency(job=j, state=s) for j, s in dependencies), **fields)
    return run


def ended(job, outcome="succeeded"):
    return JobFinished(job=job, project="vision", outcome=outcome)


def held(reason):
    return JobHeld(job="late", project="vision", reason=reason)


LET_IN = JobEligible(job="late", project="vision")


def test_a_job_is_held_with_what_it_waits_for_and_let_in_when_that_has_come():
    run = waiting(("features", "succeeded"))
    assert run.decided() == [held("waits for job features to succeed")]
    assert run.decided() == []
    run.given(ended("features"))
    assert run.decided() == [LET_IN]
    assert run.state.awaited == {}


def test_each_of_several_is_waited_for():
    run = waiting(("a", "succeeded"), ("b", "failed"), ("c", "finished"))
    assert run.decided() == [held("waits for job a to succeed, and for 2 more")]
    run.given(ended("a"))
    assert run.decided() == [held("waits for job b to fail, and for 1 more")]
    run.given(ended("c", "cancelled"))
    assert run.decided() == [held("waits for job b to fail")]
    run.given(ended("b", "failed"))
    assert run.decided() == [LET_IN]


def test_another_end_lets_nobody_in():
    run = waiting(("a", "succeeded"))
    run.decided()
    run.given(ended("a", "failed"))
    assert run.decided() == []
    run.given(ended("late", "cancelled"))
    assert run.decided() == []
    assert run.state.jobs == run.state.awaited == run.state.fresh == {}


def test_a_new_tree_lets_nobody_in_who_waits_for_another():
    run = waiting(("a", "succeeded"))
    run.decided()
    run.apply("vision", limit_milli=8_000)
    assert run.decided() == []


def test_one_that_is_paused_meanwhile_is_let_in_when_it_is_resumed():
    run = waiting(("a", "succeeded"))
    run.decided()
    run.given(
        JobPausing(job="late", project="vision"),
        JobPaused(job="late", project="vision", way="waiting"),
    )
    run.given(ended("a"))
    assert run.decided() == []
    run.given(JobResuming(job="late", project="vision"))
    assert run.decided() == [LET_IN]


def test_one_that_is_resumed_before_its_time_goes_on_waiting():
    run = waiting(("a", "succeeded"))
    run.decided()
    run.given(
        JobPausing(job="late", project="vision"),
        JobPaused(job="late", project="vision", way="waiting"),
    )
    run.given(JobResuming(job="late", project="vision"))
    assert run.decided() == [held("waits for job a to succeed")]
    run.given(ended("a"))
    assert run.decided() == [LET_IN]
    assert DECIDER.wakeup(run.state) is None or DECIDER.wakeup(run.state) > 0


def test_one_that_cannot_be_preempted_waits_for_room_after_that():
    run = waiting(("a", "succeeded"), preemptible=False)
    run.decided()
    run.apply("vision", quota_milli=500)
    run.given(ended("a"))
    assert run.decided() == [held("cannot be preempted and waits for room within the quota")]
