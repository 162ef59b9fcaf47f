"""At whose expense somebody gets devices, and at whose not."""

import pytest

from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import Act, GangEvicted, GangPlaced, SearchSuspended
from headrace.placement import room_rules
from headrace.placement.decide import DECIDER
from headrace.placement.explain_rules import explain
from headrace.placement.state import SEARCH_RESTS_S

GB = 10**9


def placements(events):
    return [event.job for event in events if isinstance(event, GangPlaced)]


def evictions(events):
    return {event.job: event.gainer for event in events if isinstance(event, GangEvicted)}


def two_teams(history, **ads):
    """Eight GPUs: vision is guaranteed four, ads as told."""
    history.node("n1")
    history.queue("research", kind="department", quota_milli=-1)
    history.queue("vision", parent="research", quota_milli=4000)
    history.queue("ads", parent="research", **ads)


def test_a_queue_within_its_quota_takes_back_what_others_hold_above_theirs(empty_history):
    history = empty_history
    two_teams(history, quota_milli=2000)
    for number in range(8):
        history.job(f"a{number}", project="ads")
    history.settled()
    history.job("v", project="vision", gpus=2000)
    events = history.settled()
    assert evictions(events) == {"a6": "v", "a7": "v"}
    act = events[0].act
    assert act.rule == "reclaim"
    assert (act.numbers["held_milli"], act.numbers["quota_milli"]) == (8000, 2000)
    assert (act.numbers["gainer_held_milli"], act.numbers["gainer_quota_milli"]) == (0, 4000)
    assert explain(history.state, "v", history.now_us).rule == "stopping"
    history.exits("a6", reason="stopped", exit_code=143)
    assert placements(history.settled()) == []
    history.exits("a7", reason="stopped", exit_code=143)
    events = history.settled()
    assert placements(events) == ["v"]
    assert history.state.jobs["a6"].waiting
    history.exits("v")
    assert set(placements(history.settled())) == {"a6", "a7"}
    assert history.placed("a6").attempt == 2


def test_what_is_freed_for_a_gang_is_kept_for_it(empty_history):
    history = empty_history
    two_teams(history, quota_milli=0)
    for number in range(8):
        history.job(f"a{number}", project="ads")
    history.settled()
    history.job("v", project="vision", gpus=4000)
    assert len(evictions(history.settled())) == 4
    history.job("sneaky", project="ads")
    for job in ("a4", "a5", "a6"):
        history.exits(job, reason="stopped", exit_code=143)
        assert history.settled()[-1].again
    history.exits("a7", reason="stopped", exit_code=143)
    assert placements(history.settled()) == ["v"]


def test_within_quota_and_non_preemptible_work_is_never_taken(empty_history):
    history = empty_history
    two_teams(history, quota_milli=4000)
    for number in range(4):
        history.job(f"a{number}", project="ads", preemptible=False)
    for number in range(4, 8):
        history.job(f"a{number}", project="ads", preemptible=number < 6)
    history.settled()
    history.job("v", project="vision", gpus=3000)
    assert evictions(history.settled()) == {"a5": "v"}  # a6 and a7 were never let in
    history.job("w", project="vision")
    events = history.settled()
    assert evictions(events) == {"a4": "w"}
    for job in ("a4", "a5"):
        history.exits(job, reason="stopped", exit_code=143)
    events += history.settled()
    assert sorted(placements(events)) == ["v", "w"]
    history.job("x", project="vision")
    assert history.settled() == []  # vision is at its quota, and ads not above its own


def test_a_queue_takes_back_up_to_its_fair_share_and_nothing_beyond(empty_history):
    history = empty_history
    two_teams(history, quota_milli=0)  # four are vision's, and of the other four one half
    for number in range(8):
        history.job(f"a{number}", project="ads")
    history.settled()
    history.job("v", project="vision", gpus=7000)
    assert history.settled() == []
    history.job("w", project="vision", gpus=6000)
    assert len(evictions(history.settled())) == 6


def test_more_important_work_of_the_same_queue_comes_first(empty_history):
    history = empty_history
    history.node("n1", gpus=2)
    history.queue("default")
    history.job("early")
    history.job("late")
    history.settled()
    history.job("urgent", priority=80)
    (event,) = history.settled()
    assert (event.job, event.gainer, event.reason) == ("late", "urgent", "preempted")
    history.exits("late", reason="stopped", exit_code=143)
    assert placements(history.settled()) == ["urgent"]
    history.exits("early")
    assert placements(history.settled()) == ["late"]


def test_preemptible_work_is_moved_when_a_gang_fits_only_then(empty_history):
    history = empty_history
    history.node("n1", gpus=2)
    history.node("n2", gpus=2)
    history.queue("default", quota_milli=-1)
    for name in ("a", "b", "c"):
        history.job(name)
        history.settled()
    history.exits("b")
    history.settled()
    history.job("two", gpus=2000)
    assert history.settled() == []  # somebody may yet end by itself
    history.now_us = DECIDER.wakeup(history.state)
    event, promise = history.settled()
    assert (event.job, event.gainer, event.reason) == ("c", "two", "moved")
    assert (promise.job, [seat.node for seat in promise.seats]) == ("c", ["n1"])
    history.exits("c", reason="stopped", exit_code=143)
    assert placements(history.settled()) == ["two", "c"]
    assert [worker.node for worker in history.placed("c").workers] == ["n1"]


def test_only_the_victims_that_are_needed_are_stopped(empty_history):
    history = empty_history
    history.node("n1", gpus=4)
    history.node("n2", gpus=4)
    history.queue("vision", quota_milli=4000)
    history.queue("ads", quota_milli=0)
    history.job("whole", project="ads", gpus=4000)
    for number in range(4):
        history.job(f"a{number}", project="ads", priority=20)
    history.settled()
    history.job("v", project="vision", gpus=4000)
    assert set(evictions(history.settled())) == {f"a{n}" for n in range(4)}


def test_a_gang_of_two_nodes_gets_room_on_both(empty_history):
    history = empty_history
    history.node("n1", gpus=8)
    history.node("n2", gpus=8)
    history.queue("vision", quota_milli=8000)
    history.queue("ads", quota_milli=8000)
    for number in range(16):
        history.job(f"a{number}", project="ads")
    history.settled()
    history.job("v", project="vision", nodes=2, gpus=2000)
    nodes = [history.placed(job).workers[0].node for job in evictions(history.settled())]
    assert sorted(nodes) == ["n1", "n1", "n2", "n2"]


def test_a_gainer_that_is_cancelled_gives_its_place_up(empty_history):
    history = empty_history
    two_teams(history, quota_milli=0)
    history.job("a", project="ads", gpus=8000)
    history.settled()
    history.job("v", project="vision", gpus=4000)
    history.settled()
    history.cancel("v", project="vision")
    history.settled()
    history.exits("a", reason="stopped", exit_code=143)
    assert placements(history.settled()) == ["a"]


def test_a_search_that_takes_too_long_goes_on_in_the_next_turn(empty_history, monkeypatch):
    history = empty_history
    monkeypatch.setattr(room_rules, "STEPS_MAX", 1)
    history.node("n1", gpus=2)
    history.queue("vision", quota_milli=2000)
    history.queue("ads", quota_milli=0)
    history.queue("lab", quota_milli=0)
    history.job("a0", project="ads", priority=90)
    history.job("a1", project="ads", priority=80)
    history.settled()
    history.job("behind", project="ads", priority=85)
    history.job("v", project="vision", preemptible=False)
    events = history.settled()
    assert {(e.job, e.gainer) for e in events if isinstance(e, GangEvicted)} == {("a1", "v")}
    searches = [(e.action, e.job) for e in events if isinstance(e, SearchSuspended)]
    assert searches[-1] == ("", "")
    assert len(searches) > 1
    assert history.state.searching.rests_until_us > history.now_us


def test_a_search_that_took_several_turns_is_made_again_when_time_may_have_changed_its_end(
    empty_history,
):
    history = empty_history
    history.node("n1", gpus=1)
    history.queue("vision", quota_milli=1000)
    history.queue("ads", quota_milli=0, reclaim_after_us=20_000_000)
    history.job("a", project="ads")
    history.settled()
    history.job("v", project="vision")
    assert evictions(history.settled()) == {}
    history.given(SearchSuspended())  # it has come to its end, after several turns
    ended_us, evicted = history.now_us, {}
    while not evicted:
        now_us = DECIDER.wakeup(history.state)
        assert now_us is not None, "it waits for nothing, for ever"
        history.now_us = max(history.now_us, now_us)
        evicted = evictions(history.settled())
    assert evicted == {"a": "v"}
    assert history.now_us - ended_us < (SEARCH_RESTS_S + 1) * 1_000_000


def test_whoever_is_moved_for_somebody_less_important_does_not_take_its_old_place_back(
    empty_history,
):
    history = empty_history
    history.node("n1", gpus=2)
    history.node("n2", gpus=2)
    history.queue("default", quota_milli=-1)
    for name in ("a", "b", "c"):
        history.job(name, priority=60)
        history.settled()
    history.exits("b")
    history.settled()
    history.job("two", gpus=2000)
    history.settled()
    history.now_us = DECIDER.wakeup(history.state)
    event, promise = history.settled()
    assert (event.job, event.gainer, event.reason) == ("c", "two", "moved")
    assert (promise.job, [seat.node for seat in promise.seats]) == ("c", ["n1"])
    history.exits("c", reason="stopped", exit_code=143)
    assert placements(history.settled()) == ["two", "c"]


@pytest.mark.parametrize("most", [2, 3])
def test_a_gang_at_its_minimum_makes_way_for_whom_a_quota_is_owed(empty_history, most):
    """Though it could also grow: what it asks for when it is stopped is its minimum, not that."""
    history, node = empty_history, (Accelerator(milli=8000),)
    for name in ("a", "b"):
        history.node(f"n-{name}")
        history.queue(name, quota_milli=8000)
    history.job("e", gang=Gang(nodes=2, nodes_max=most, accelerators=node), project="a")
    history.settled()
    history.starts("e")
    history.settled()

    history.job("owed", gang=Gang(nodes=1, accelerators=node), project="b")

    events = history.settled()
    assert evictions(events) == {"e": "owed"}
    assert events[0].act.rule == "reclaim"


@pytest.mark.parametrize("reason", ["reclaimed", "moved", "node-drain"])
def test_work_that_was_done_before_its_end_was_asked_for_is_finished(empty_history, reason):
    history = empty_history
    history.node("n1")
    history.queue("default")
    history.job("a", nodes=1)
    history.settled()
    history.starts("a")
    history.settled()
    history.given(
        GangEvicted(job="a", project="default", attempt=1, reason=reason, act=Act(rule=reason))
    )
    history.exits("a")  # of itself: what was asked of it came too late
    released, finished = history.settled()
    assert not released.again
    assert (finished.outcome, finished.attempt) == ("succeeded", 1)
