"""Whoever is stopped to go on elsewhere gets that place: nobody takes it meanwhile."""

from tests.placement.test_elastic import elastic
from tests.placement.test_evictions import placements

from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import GangEvicted, GangPlaced, GangReserved, GangShrunk
from headrace.events.jobs import JobCancelling
from headrace.placement.decide import DECIDER
from headrace.placement.room_rules import PROMISED_MAX
from headrace.placement.state import RELEASE_S

SECOND_US = 1_000_000
DAY_US = 24 * 3600 * SECOND_US
LOSSES_MAX = 20


def fleet(history):
    """Gangs have no two workers on one node, so only two of them can be on the small nodes whole."""
    for name, gpus in (("n1", 2), ("n2", 4), ("n3", 2)):
        history.node(name, gpus=gpus)


def pair(history, name, **fields):
    gang = Gang(nodes=2, accelerators=(Accelerator(milli=1000),), cpu_milli=1000)
    history.job(name, gang=gang, **fields)


def runs(history, name):
    history.settled()
    history.starts(name)
    history.settled()


def nodes_of(history, name):
    return sorted(worker.node for worker in history.state.jobs[name].run.workers)


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def stopped(events):
    return [(e.job, e.gainer, e.reason) for e in of(GangEvicted, events)]


def leave(history, events):
    """Whoever is to stop has stopped, and whoever is placed has started; what is decided then."""
    for event in of(GangEvicted, events):
        history.exits(event.job, reason="stopped", exit_code=143)
    for event in of(GangShrunk, events):
        history.exits(event.job, ranks=event.ranks, reason="stopped", exit_code=143)
    for event in of(GangPlaced, events):
        history.starts(event.job)
    return history.settled()


def losses(history, events, span_us):
    """Who loses something from these events on, if everybody does at once what is decided, in a
    world in which nothing else happens.
    """
    until_us, lost = history.now_us + span_us, []
    while True:
        while events:
            lost += [event.job for event in of(GangEvicted, events) + of(GangShrunk, events)]
            assert len(lost) < LOSSES_MAX, lost
            events = leave(history, events)
        at_us = DECIDER.wakeup(history.state)
        if at_us is None or at_us > until_us:
            return lost
        history.now_us = max(history.now_us, at_us)
        events = history.settled()


def shared(history):
    """Two elastic gangs of two projects take the small nodes, and a third waits for one of them."""
    fleet(history)
    minutes = {"reclaim_after_us": 60 * SECOND_US, "preempt_after_us": 60 * SECOND_US}
    history.queue("ads", quota_milli=4000, weight=3, **minutes)
    history.queue("vision", quota_milli=2000, **minutes)
    gang = {"least": 2, "most": 3, "gpus": 1000}
    elastic(history, "v", **gang, project="vision", priority=20)
    runs(history, "v")
    elastic(history, "a", **gang, project="ads", priority=40)
    runs(history, "a")
    elastic(history, "b", **gang, project="ads", priority=20)
    assert history.settled() == []
    history.now_us += 60 * SECOND_US
    return history.settled()


def test_a_gang_that_could_keep_its_minimum_elsewhere_is_promised_that(empty_history):
    history = empty_history
    events = shared(history)
    assert stopped(events) == [("v", "b", "moved")]
    (promise,) = of(GangReserved, events)
    assert (promise.job, promise.act.rule) == ("v", "moved")
    assert sorted(seat.node for seat in promise.seats) == ["n1", "n2"]


def test_three_gangs_that_fit_together_come_to_rest(empty_history):
    history = empty_history
    assert losses(history, shared(history), DAY_US) == ["v"]
    assert all(len(nodes_of(history, name)) >= 2 for name in "abv")


def consolidated(history):
    """`a` and `b` have the small nodes, and one of them is to move for `c`."""
    fleet(history)
    history.queue("default", quota_milli=-1)
    pair(history, "a")
    runs(history, "a")
    pair(history, "b")
    runs(history, "b")
    pair(history, "c")
    assert history.settled() == []  # somebody may yet end by itself
    history.now_us = DECIDER.wakeup(history.state)
    events = history.settled()
    assert stopped(events) == [("b", "c", "moved")]
    return events


def test_a_gang_that_is_moved_finds_its_place_whoever_it_made_way_for(empty_history):
    history = empty_history
    events = leave(history, consolidated(history))
    assert placements(events) == ["c", "b"]
    assert losses(history, events, DAY_US) == []


def test_nobody_who_comes_meanwhile_takes_the_place_of_a_gang_that_moves(empty_history):
    history = empty_history
    events = consolidated(history)
    for number in range(4):
        history.job(f"late{number}")
    assert len(placements(history.settled())) == 2  # of four GPUs two are promised
    assert placements(leave(history, events)) == ["c", "b"]


def test_the_promise_to_a_gang_that_moves_is_in_a_snapshot(empty_history):
    history = empty_history
    events = consolidated(history)
    history.cut()
    assert placements(leave(history, events)) == ["c", "b"]


def test_who_does_not_leave_in_time_keeps_nothing_free_elsewhere(empty_history):
    history = empty_history
    consolidated(history)
    history.now_us += (RELEASE_S + 1) * SECOND_US
    (withdrawn,) = of(GangReserved, history.settled())
    assert (withdrawn.job, withdrawn.seats, withdrawn.act.rule) == ("b", (), "not-gone")


def test_who_is_cancelled_while_it_moves_keeps_nothing_free_elsewhere(empty_history):
    history = empty_history
    consolidated(history)
    history.given(JobCancelling(job="b", project="default"))
    for number in range(4):
        history.job(f"late{number}")
    assert len(placements(history.settled())) == 3  # one GPU is for c


def test_no_more_are_promised_their_places_than_a_turn_can_look_at(empty_history):
    history, moved = empty_history, PROMISED_MAX + 3
    history.queue("default", quota_milli=-1)
    for number in range(2 * moved):
        history.node(f"n{number + 1}", gpus=2)
    for number in range(4 * moved):
        history.job(f"s{number}")
    history.settled()
    for names in by_node(history).values():
        history.exits(names[0])
    history.settled()
    for number in range(moved):
        history.job(f"w{number}", gpus=2000)
    history.settled()
    history.now_us = DECIDER.wakeup(history.state)
    events = history.settled(turns=2 * moved)
    assert len(stopped(events)) > PROMISED_MAX
    assert len(of(GangReserved, events)) == PROMISED_MAX


def by_node(history):
    names = {}
    for name in history.state.jobs:
        names.setdefault(nodes_of(history, name)[0], []).append(name)
    return names
