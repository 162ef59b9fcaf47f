"""Pausing and resuming: one job, one trial, and sweeps as a whole."""

import pytest

from headrace.events.jobs import JobAdmitted
from headrace.events.pauses import (
    JobPauseRequested,
    JobPausing,
    JobResumeRequested,
    JobResuming,
)

from .facts import cancel, decided, finished, history, refusal, requested, sweep
from .test_groups import admitted, cancelled, small_turns


def pause(job="a-1", project="vision"):
    return JobPauseRequested(job=job, project=project, user="bob")


def resume(job="a-1", project="vision"):
    return JobResumeRequested(job=job, project=project, user="bob")


def told(drafts, kind=JobPausing):
    return [d.event.job for d in drafts if isinstance(d.event, kind)]


def running(*events):
    run = history(*events)
    run.settled()
    return run


def test_a_job_is_paused_and_resumed_for_whoever_asked():
    run = running(requested())

    assert decided(run.given(pause())) == JobPausing(job="a-1", project="vision", user="bob")
    assert decided(run.given(resume())) == JobResuming(job="a-1", project="vision", user="bob")


@pytest.mark.parametrize("ask", [pause, resume])
def test_nothing_is_said_about_jobs_of_others_or_that_have_ended(ask):
    run = running(requested(), requested("b-2"))
    run.given(finished("b-2"))

    assert (
        refusal(run.given(ask("a-1", "ads"))) == "refused: job = a-1 — is not a job of project ads"
    )
    assert refusal(run.given(ask("b-2"))).endswith("has already ended: succeeded")
    assert "is not a job of project vision" in refusal(run.given(ask("c-3")))


def test_what_is_to_end_is_not_paused_and_what_is_not_paused_is_not_resumed():
    run = running(requested(), requested("b-2"))
    run.given(cancel())
    run.turn()

    assert refusal(run.given(pause())).endswith("is about to end")
    assert refusal(run.given(resume("b-2"))).endswith("is not paused")


def test_what_is_asked_in_one_turn_is_judged_one_after_the_other():
    run = running(requested())
    drafts = run.given(pause(), pause(), resume(), resume()).turn()

    kinds = [type(draft.event).__name__ for draft in drafts]
    assert kinds == ["JobPausing", "JobPausing", "JobResuming", "JobResumeRefused"]


def test_a_sweep_is_paused_with_each_of_its_trials_and_resumed_with_them():
    run = running(sweep(tasks=3))
    run.given(finished("s-1/1"), pause("s-1"))
    drafts = run.settled()
    assert told(drafts) == ["s-1", "s-1/0", "s-1/2"]
    assert {draft.causation for draft in drafts} == {len(run.entries) - 3}
    assert {draft.event.user for draft in drafts} == {"bob"}

    run.given(resume("s-1"))

    assert told(run.settled(), JobResuming) == ["s-1", "s-1/0", "s-1/2"]
    assert run.state.spreading == {}


def test_one_trial_is_paused_alone_and_resumed_with_its_sweep():
    run = running(sweep(tasks=3))
    assert told(run.given(pause("s-1/1")).settled()) == ["s-1/1"]

    assert told(run.given(resume("s-1")).settled(), JobResuming) == ["s-1", "s-1/1"]


def test_one_trial_of_a_paused_sweep_may_go_on_alone():
    run = running(sweep(tasks=3))
    run.given(pause("s-1"))
    run.settled()

    assert told(run.given(resume("s-1/1")).settled(), JobResuming) == ["s-1/1"]
    assert [run.state.live[f"s-1/{i}"].pausing for i in range(3)] == [True, False, True]


def test_a_paused_sweep_admits_no_more_trials_until_it_is_resumed():
    run = history(small_turns(), sweep(tasks=9))
    first = run.turn() + run.given(pause("s-1")).settled()
    assert len(admitted(first)) < 9
    assert run.decides() == []

    later = run.restored().given(resume("s-1")).settled()

    assert admitted(first) + admitted(later) == ["s-1", *(f"s-1/{i}" for i in range(9))]
    assert not any(job.pausing for job in run.state.live.values())


def test_a_large_sweep_is_paused_over_several_turns_by_whoever_leads():
    run = history(small_turns(), sweep(tasks=9))
    run.settled()
    run.given(pause("s-1"))
    jobs = []
    while drafts := run.restored().turn():
        jobs += told(drafts)

    assert jobs == ["s-1", *(f"s-1/{i}" for i in range(9))]


@pytest.mark.parametrize("turns", range(5))
def test_whoever_asks_last_is_heard_however_far_the_sweep_was(turns):
    run = history(small_turns(), sweep(tasks=9))
    run.settled()
    run.given(pause("s-1"))
    for _ in range(turns):
        run.turn()
    run.given(resume("s-1/7"), pause("s-1/8")) if turns else None
    run.given(resume("s-1"))
    run.settled()

    assert not any(job.pausing for job in run.state.live.values())
    assert run.state.spreading == {}


def test_trials_that_end_or_are_cancelled_meanwhile_are_left_alone():
    run = history(small_turns(2), sweep(tasks=6))
    run.settled()
    run.given(pause("s-1"))
    run.turn()
    run.given(finished("s-1/2"), cancel("s-1/3"))

    assert not {"s-1/2", "s-1/3"} & set(told(run.settled()))


def test_a_paused_sweep_can_be_cancelled():
    run = history(small_turns(), sweep(tasks=9))
    run.turn()
    run.given(pause("s-1"))
    run.turn()
    drafts = run.given(cancel("s-1")).settled()

    assert cancelled(drafts)[0] == "s-1"
    assert not any(isinstance(draft.event, JobAdmitted) for draft in drafts)
    assert run.state.spreading == {}
