"""Jobs that come after others: which one is meant, and what comes of a wait in vain."""

import pytest

from headrace.admission.decide import DECIDER
from headrace.events.asked import Dependency
from headrace.events.jobs import JobAdmitted, JobCancelling

from .facts import cancel, decided, finished, history, project, refusal, requested, sweep


def after(job, state="succeeded"):
    return (Dependency(job=job, state=state),)


def live(*jobs):
    run = history(*(requested(job) for job in jobs))
    run.settled()
    return run


def test_a_job_waits_for_a_live_one_by_its_id_or_the_beginning_of_it():
    run = live("features-7qk2", "other-1")
    for name in ("features-7qk2", "features", "fea"):
        admitted = decided(run.given(requested(f"train-{name}", after=after(name))))
        assert admitted.after == after("features-7qk2")


def test_a_job_may_come_after_one_that_arrived_just_before_it():
    run = history(requested("a-1"), requested("b-1", after=after("a")))
    assert run.turn()[1].event.after == after("a-1")


@pytest.mark.parametrize("state", ["succeeded", "finished"])
def test_what_has_already_ended_so_is_not_waited_for(state):
    run = live("features-1").given(finished("features-1"))
    admitted = decided(run.given(requested("b-1", after=after("features", state))))
    assert isinstance(admitted, JobAdmitted)
    assert admitted.after == ()


def test_a_job_after_one_that_ended_otherwise_is_refused():
    run = live("features-1").given(finished("features-1", outcome="failed"))
    assert refusal(run.given(requested("b-1", after=after("features")))) == (
        "refused: after[0].job = features — features-1 was to succeed and has ended as failed"
    )


def test_a_job_that_was_refused_is_never_waited_for():
    run = history(requested("a-1", secrets=("X",)))
    run.settled()
    said = refusal(run.given(requested("b-1", after=after("a-1", "finished"))))
    assert said.endswith("a-1 was to end and has ended as refused")


def test_a_beginning_of_several_is_refused_with_some_of_them():
    run = live("features-1", "features-2")
    assert refusal(run.given(requested("b-1", after=after("feat")))) == (
        "refused: after[0].job = feat — is short for 2 jobs: features-1, features-2; "
        "more of its letters"
    )


def test_of_several_jobs_of_one_name_the_newest_is_meant_also_beside_longer_names():
    run = live("features-9", "features-1", "features-all-2")
    admitted = decided(run.given(requested("b-1", after=after("features", "finished"))))
    assert admitted.after == after("features-1", "finished")
    ended = run.given(finished("features-9"), finished("features-1", outcome="failed"))
    said = refusal(ended.restored().given(requested("c-1", after=after("features"))))
    assert said.endswith("features-1 was to succeed and has ended as failed")


def test_of_those_that_came_in_one_turn_the_last_is_the_newest():
    run = history(requested("a-2"), requested("a-1"), requested("b-1", after=after("a")))
    assert run.turn()[2].event.after == after("a-1")


def test_a_job_that_was_refused_stands_in_nobodys_way():
    run = live("etl-1").given(finished("etl-1"), requested("etl-2", secrets=("X",)))
    run.settled()
    for word in ("etl", "et"):
        admitted = decided(run.given(requested(f"b-{word}", after=after(word))))
        assert admitted.after == ()


def test_a_job_names_another_by_the_key_that_it_was_submitted_under():
    run = live()
    for night in (1, 2):
        run.given(requested(f"etl-{night}", key=f"etl-2026-11-2{night}"))
        run.settled()
    wanted = (Dependency(key="etl-2026-11-21", state="finished"),)
    for job in ("b-1", "b-2"):
        run = run.restored()
        admitted = decided(run.given(requested(job, after=wanted)))
        assert admitted.after == after("etl-1", "finished")
    run.given(finished("etl-1"))
    assert decided(run.given(requested("c-1", after=wanted))).after == ()
    one_turn = history(requested("etl-9", key="k"), requested("b-1", after=(Dependency(key="k"),)))
    assert one_turn.turn()[1].event.after == after("etl-9")


@pytest.mark.parametrize("of", ["vision", "ads"])
def test_a_key_that_nothing_of_the_project_was_submitted_under_is_refused(of):
    run = live().given(project("ads"), requested("etl-1", project="ads", key="k"))
    run.settled()
    wanted = (Dependency(key="k" if of == "ads" else "other"),)
    said = refusal(run.given(requested("b-1", after=wanted)))
    assert said.startswith("refused: after[0].key = ")
    assert "no job of project vision is known that was submitted under this key" in said


def test_a_live_job_is_meant_rather_than_one_that_ended():
    run = live("features-1", "features-2").given(finished("features-1", outcome="failed"))
    assert decided(run.given(requested("b-1", after=after("features")))).after == after(
        "features-2"
    )


@pytest.mark.parametrize("is_ended", [False, True])
def test_other_projects_jobs_cannot_be_waited_for(is_ended):
    run = live("features-1").given(project("ads"))
    if is_ended:
        run.given(finished("features-1"))
    said = refusal(run.given(requested("b-1", project="ads", after=after("features-1"))))
    assert said.startswith(
        "refused: after[0].job = features-1 — is not a job of project ads, or ended long ago"
    )


def test_one_job_is_not_to_end_in_two_ways():
    wanted = (*after("features"), *after("features-1", "failed"))
    said = refusal(live("features-1").given(requested("b-1", after=wanted)))
    assert said.endswith(
        "after[1].job = features-1 — is features-1, which is to end as succeeded too"
    )


@pytest.mark.parametrize(
    ("state", "outcome", "is_in_vain"),
    [
        ("succeeded", "succeeded", False),
        ("succeeded", "failed", True),
        ("succeeded", "cancelled", True),
        ("failed", "failed", False),
        ("failed", "succeeded", True),
        ("failed", "cancelled", True),
        ("finished", "failed", False),
        ("finished", "cancelled", False),
    ],
)
def test_who_waits_in_vain_is_ended_with_the_reason(state, outcome, is_in_vain):
    run = live("a-1").given(requested("b-1", after=after("a-1", state)))
    run.settled()
    run.given(finished("a-1", outcome=outcome))
    drafts = run.restored().settled()
    if not is_in_vain:
        assert drafts == []
        return
    (draft,) = drafts
    assert draft.event.message.endswith(f"and has ended as {outcome}")
    assert (draft.event.job, draft.event.reason) == ("b-1", "dependency")
    assert (draft.event.user, draft.causation) == ("", run.entries[-2].position)
    assert run.state.awaited == run.state.unmet == {}
    assert DECIDER.wakeup(run.state) is None


def test_a_chain_is_ended_link_by_link():
    run = live("a-1")
    run.given(requested("b-1", after=after("a-1")), requested("c-1", after=after("b-1")))
    run.settled()
    run.given(finished("a-1", outcome="failed"))
    assert [draft.event.job for draft in run.settled()] == ["b-1"]
    run.given(finished("b-1", outcome="cancelled"))
    (draft,) = run.settled()
    assert draft.event == JobCancelling(
        job="c-1", project="vision", reason="dependency",
        message="b-1 was to succeed and has ended as cancelled",
    )  # fmt: skip


def test_who_is_cancelled_waits_for_nothing_more():
    run = live("a-1").given(requested("b-1", after=after("a-1")))
    run.settled()
    run.given(cancel("b-1"))
    run.settled()
    assert run.state.awaited == {}
    assert run.given(finished("a-1", outcome="failed")).settled() == []


def test_who_is_cancelled_in_the_turn_in_which_its_wait_is_in_vain_is_ended_once():
    run = live("a-1").given(requested("b-1", after=after("a-1")))
    run.settled()
    run.given(finished("a-1", outcome="failed"), cancel("b-1"))
    assert [type(draft.event) for draft in run.settled()] == [JobCancelling]


def test_every_task_of_a_sweep_waits_as_the_sweep_does():
    run = live("a-1").given(sweep(tasks=2, after=after("a")))
    assert [draft.event.after for draft in run.settled()] == [after("a-1")] * 3
    run.given(finished("a-1", outcome="failed"))
    drafts = run.settled()
    assert [draft.event.job for draft in drafts] == ["s-1", "s-1/0", "s-1/1"]
    assert {draft.event.reason for draft in drafts} == {"dependency"}
    assert len({draft.event.message for draft in drafts}) == 1


def test_tasks_that_come_after_the_end_of_what_their_sweep_waited_for_do_not_wait():
    run = live("a-1").given(sweep(tasks=2, after=after("a-1")))
    run.turn()
    run.given(finished("a-1"))
    assert [draft.event.after for draft in run.settled()] == [(), ()]


def test_a_job_waits_for_one_task_or_for_the_whole_sweep():
    run = history(sweep(tasks=2))
    run.settled()
    for job, name in (("b-1", "s-1"), ("b-2", "s-1/1")):
        assert decided(run.given(requested(job, after=after(name)))).after == after(name)


def test_a_sweep_that_has_ended_is_meant_by_its_name_and_none_of_its_trials():
    """A trial that failed is not how the sweep ended."""
    run = history(sweep(tasks=2))
    run.settled()
    run.given(finished("s-1/0"), finished("s-1/1", outcome="failed"), finished("s-1"))
    assert decided(run.given(requested("b-1", after=after("s")))).after == ()
    assert decided(run.restored().given(requested("b-2", after=after("s")))).after == ()
