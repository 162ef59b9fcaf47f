"""Sweeps and arrays: one object, many tasks."""

import pytest

from headrace.events.jobs import JobAdmitted, JobCancelling
from headrace.events.platform import ServiceLed

from .facts import cancel, finished, history, led, project, refusal, sweep


def small_turns(most=4):
    settings = {"drafts_max": most}
    return ServiceLed(service="admission", epoch=1, decision_version="v", settings=settings)


def admitted(drafts):
    return [d.event.job for d in drafts if isinstance(d.event, JobAdmitted)]


def cancelled(drafts):
    return [d.event.job for d in drafts if isinstance(d.event, JobCancelling)]


def test_a_group_is_admitted_once_and_then_each_of_its_tasks():
    run = history(sweep(tasks=2, trials_parallel=1, stop_after_failures=2))
    group, first, second = run.settled()
    assert (group.event.tasks, group.event.tasks_parallel) == (2, 1)
    assert group.event.stop_after_failures == 2
    assert (first.event.job, first.event.group, first.event.index) == ("s-1/0", "s-1", 0)
    assert (second.event.job, second.event.tasks) == ("s-1/1", 0)
    assert {d.causation for d in (group, first, second)} == {3}
    assert first.event.requested_at == 3


def test_the_first_decision_of_a_group_answers_its_request():
    run = history(small_turns(), sweep(tasks=9))
    assert run.turn()[0].event.tasks == 9


def test_a_large_group_is_admitted_over_several_turns():
    run = history(small_turns(), sweep(tasks=9))
    jobs = admitted(run.settled())
    assert jobs == ["s-1", *(f"s-1/{i}" for i in range(9))]
    assert run.state.expanding == {}


def test_nothing_is_lost_when_another_instance_goes_on_with_a_large_group():
    run = history(small_turns(), sweep(tasks=9))
    jobs = []
    while drafts := run.restored().turn():
        jobs += admitted(drafts)
    assert jobs == ["s-1", *(f"s-1/{i}" for i in range(9))]


def test_cancelling_a_group_cancels_it_and_each_task_that_lives():
    run = history(sweep(tasks=3))
    run.settled()
    run.given(finished("s-1/1"), cancel("s-1"))
    drafts = run.settled()
    assert cancelled(drafts) == ["s-1", "s-1/0", "s-1/2"]
    assert {d.causation for d in drafts} == {len(run.entries) - 3}
    assert drafts[1].event.user == "bob"
    assert run.state.stopping == {}


def test_a_group_that_was_asked_to_end_can_be_ended_at_once():
    run = history(sweep(tasks=2))
    run.settled()
    run.given(cancel("s-1"))
    run.settled()
    run.given(cancel("s-1", now=True))
    drafts = run.settled()
    assert cancelled(drafts) == ["s-1", "s-1/0", "s-1/1"]
    assert all(draft.event.now for draft in drafts)


def test_a_group_that_is_cancelled_while_it_is_admitted_admits_no_more():
    run = history(small_turns(), sweep(tasks=20))
    first = admitted(run.turn() + run.turn())
    assert first[:2] == ["s-1", "s-1/0"]
    run.given(cancel("s-1"))
    rest = run.settled()
    assert admitted(rest) == []
    assert cancelled(rest) == first


def test_a_group_that_ends_before_its_tasks_leaves_none_behind():
    run = history(small_turns(), sweep(tasks=20))
    run.turn()
    tasks = admitted(run.turn())
    run.given(finished("s-1", outcome="failed"))
    drafts = run.settled()
    assert admitted(drafts) == []
    assert cancelled(drafts) == tasks != []
    assert {d.event.reason for d in drafts} == {"group-ended"}


def test_a_task_that_was_admitted_just_after_its_group_ended_is_stopped():
    run = history(small_turns(), sweep(tasks=9))
    run.turn()
    on_their_way = run.decides()
    run.given(*(finished(f"s-1/{i}") for i in range(3)), finished("s-1"))
    for draft in on_their_way:
        run.given(draft.event, causation=draft.causation)
    assert cancelled(run.settled()) == admitted(on_their_way)


def test_one_task_can_be_cancelled_alone():
    run = history(sweep(tasks=3))
    run.settled()
    assert cancelled(run.given(cancel("s-1/1")).settled()) == ["s-1/1"]


def test_tasks_that_ended_while_the_group_is_being_cancelled_are_left_alone():
    run = history(small_turns(2), sweep(tasks=6))
    run.settled()
    run.given(cancel("s-1"))
    first = cancelled(run.turn())
    assert first == ["s-1"]
    run.given(*(finished(f"s-1/{i}", outcome="cancelled") for i in range(5)))
    assert cancelled(run.settled()) == ["s-1/5"]


@pytest.mark.parametrize("job", ["s-1", "s-1/0"])
def test_an_ended_group_and_its_ended_tasks_cannot_be_cancelled(job):
    run = history(sweep(tasks=1))
    run.settled()
    run.given(finished("s-1/0"), finished("s-1"), cancel(job))
    assert refusal(run) == f"refused: job = {job} — has already ended: succeeded"
    assert run.state.live_of == {}
    assert run.state.groups == {}


@pytest.mark.security
def test_the_tasks_of_one_project_leave_room_for_another_ones_in_every_turn():
    run = history(led(drafts_max=4), project("ads"), sweep("a-1", tasks=50), sweep("a-2", tasks=50))
    run.given(sweep("b-1", tasks=2, project="ads")).turn()
    first = [job for _ in range(2) for job in admitted(run.turn())]
    assert [job for job in first if job.startswith("b-1/")] == ["b-1/0", "b-1/1"]
