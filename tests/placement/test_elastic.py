"""Gangs that grow while GPUs are idle, and shrink instead of dying."""

import pytest

from headrace.events import tag_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import GangEvicted, GangGrown, GangPlaced, GangShrunk, WorkersReleased
from headrace.events.jobs import JobFinished
from headrace.events.nodes import NodeSilent
from headrace.placement.explain_rules import explain


def elastic(history, name, least=1, most=4, gpus=8000, **fields):
    gang = Gang(
        nodes=least, nodes_max=most, accelerators=(Accelerator(milli=gpus),), cpu_milli=1000
    )
    history.job(name, gang=gang, **fields)


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def tags(events):
    return [tag_of(event).removesuffix(".v1") for event in events]


def ranks(history, name):
    return [worker.rank for worker in history.state.jobs[name].run.workers]


def fleet(history, nodes, **queues):
    for number in range(nodes):
        history.node(f"n{number + 1}")
    for name, numbers in (queues or {"default": {}}).items():
        history.queue(name, **numbers)


@pytest.fixture
def running(empty_history):
    """A gang of 1..4 on the only two nodes there are."""
    history = empty_history
    fleet(history, 2)
    elastic(history, "e")
    history.settled()
    history.starts("e")
    history.settled()
    return history


def test_a_gang_takes_at_once_what_is_free_up_to_its_maximum(empty_history):
    history = empty_history
    fleet(history, 3)
    elastic(history, "e", least=1, most=2)
    (placed,) = of(GangPlaced, history.settled())
    assert [worker.rank for worker in placed.workers] == [0, 1]
    assert placed.milli == 16000
    history.starts("e")
    assert tags(history.settled()) == ["job.started"]


def test_a_gang_starts_with_its_minimum_and_grows_when_nodes_come(running):
    history = running
    assert ranks(history, "e") == [0, 1]
    history.node("n3")
    (grown,) = history.settled()
    assert isinstance(grown, GangGrown)
    assert [(w.rank, w.node) for w in grown.workers] == [(2, "n3")]
    assert (grown.attempt, grown.milli, grown.act.rule) == (1, 8000, "grows")
    assert history.state.usage["default"].milli == 24000
    history.node("n4")
    history.node("n5")
    assert [w.rank for e in of(GangGrown, history.settled()) for w in e.workers] == [3]
    text = explain(history.state, "e", history.now_us).text
    assert text == "runs on n1, n2, n3, n4: 4 of 1..4 nodes"


def test_a_gang_does_not_grow_before_it_runs(empty_history):
    history = empty_history
    fleet(history, 1)
    elastic(history, "e")
    history.settled()
    history.node("n2")
    assert history.settled() == []
    history.starts("e")
    assert tags(history.settled()) == ["job.started", "gang.grown"]


def test_who_waits_comes_before_who_grows(running):
    history = running
    history.job("w", gpus=8000)
    history.settled()
    history.node("n3")
    (placed,) = history.settled()
    assert (type(placed), placed.job) == (GangPlaced, "w")


def test_reclaim_shrinks_a_gang_instead_of_ending_it(empty_history):
    history = empty_history
    fleet(history, 3, vision={"quota_milli": 8000}, ads={"quota_milli": 0})
    elastic(history, "e", project="ads", least=1, most=3)
    history.settled()
    history.starts("e")
    history.settled()
    history.job("v", project="vision", gpus=8000)
    (shrunk,) = history.settled()
    assert isinstance(shrunk, GangShrunk)
    assert (shrunk.ranks, shrunk.reason, shrunk.gainer) == ((2,), "reclaimed", "v")
    assert history.state.usage["ads"].milli == 24000
    assert explain(history.state, "v", history.now_us).rule == "stopping"
    assert "1 more being stopped (reclaimed)" in explain(history.state, "e", history.now_us).text
    history.exits("e", ranks=[2], reason="stopped", exit_code=143)
    events = history.settled()
    assert tags(events) == ["workers.released", "gang.placed"]
    released = events[0]
    assert (released.ranks, released.milli, released.reason) == ((2,), 8000, "reclaimed")
    assert ranks(history, "e") == [0, 1]
    history.exits("v")
    assert [w.rank for e in of(GangGrown, history.settled()) for w in e.workers] == [3]
    history.exits("e")
    assert tags(history.settled()) == ["workers.released", "gang.released", "job.finished"]
    assert history.state.usage["ads"].milli == 0


def test_the_minimum_of_a_semi_preemptible_gang_is_never_taken(empty_history):
    history = empty_history
    fleet(history, 3, vision={"quota_milli": 16000}, ads={"quota_milli": 8000})
    elastic(history, "e", project="ads", least=1, most=3, protected_minimum=True)
    history.settled()
    history.starts("e")
    history.settled()
    assert (history.state.usage["ads"].milli, history.state.usage["ads"].firm_milli) == (
        24000,
        8000,
    )
    history.job("v", project="vision", gpus=8000, nodes=2)
    (shrunk,) = history.settled()
    assert (shrunk.ranks, shrunk.reason) == ((1, 2), "reclaimed")
    history.exits("e", ranks=[1, 2], reason="stopped", exit_code=143)
    history.settled()
    history.queue("ads", quota_milli=0)
    history.job("w", project="vision", gpus=8000)
    assert history.settled() == []


def test_the_minimum_of_a_semi_preemptible_gang_must_fit_the_quota(empty_history):
    history = empty_history
    fleet(history, 3, ads={"quota_milli": 8000})
    elastic(history, "e", project="ads", least=2, most=3, protected_minimum=True)
    assert history.settled() == []
    history.queue("ads", quota_milli=16000)
    (placed,) = history.settled()
    assert len(placed.workers) == 3


def test_more_important_work_of_the_queue_takes_the_surplus_first_and_then_all(empty_history):
    history = empty_history
    fleet(history, 3)
    elastic(history, "e", least=2, most=3, priority=20)
    history.settled()
    history.starts("e")
    history.settled()
    history.job("v", gpus=8000, priority=60)
    (shrunk,) = history.settled()
    assert (type(shrunk), shrunk.ranks, shrunk.reason) == (GangShrunk, (2,), "preempted")
    history.exits("e", ranks=[2], reason="stopped", exit_code=143)
    history.settled()
    history.job("w", gpus=8000, priority=60)
    (evicted,) = history.settled()
    assert (type(evicted), evicted.job, evicted.gainer) == (GangEvicted, "e", "w")


def test_nobody_is_stopped_so_that_a_gang_may_grow(empty_history):
    history = empty_history
    fleet(history, 2, vision={"quota_milli": 16000}, ads={"quota_milli": 0})
    history.job("a", project="ads", gpus=8000)
    assert tags(history.settled()) == ["gang.placed"]
    elastic(history, "e", project="vision", least=1, most=2)
    assert tags(history.settled()) == ["gang.placed"]
    history.starts("e")
    assert tags(history.settled()) == ["job.started"]
    history.job("v", project="vision", gpus=8000)
    assert tags(history.settled()) == ["gang.evicted"]


def test_a_gang_goes_on_without_a_machine_and_grows_again(running):
    history = running
    history.node("n3")
    history.settled()
    history.starts("e", ranks=[2])
    history.settled()
    history.node("n2", boot="boot-2")
    (released, grown) = history.settled()
    assert (type(released), released.ranks, released.reason) == (WorkersReleased, (1,), "node-lost")
    assert [(w.rank, w.node) for w in grown.workers] == [(3, "n2")]
    assert history.state.jobs["e"].lost == 0


def test_below_its_minimum_a_gang_ends_and_waits_again(empty_history):
    history = empty_history
    fleet(history, 3)
    elastic(history, "e", least=2, most=3)
    history.settled()
    history.starts("e")
    history.settled()
    history.given(NodeSilent(node="n2"), NodeSilent(node="n3"))
    history.exits("e", ranks=[2], reason="lost", exit_code=137)
    assert tags(history.settled())[0] == "workers.released"
    history.exits("e", ranks=[1], reason="lost", exit_code=137)
    assert tags(history.settled())[0] == "gang.evicted"


def test_without_rank_0_nobody_can_meet(running):
    history = running
    history.exits("e", ranks=[0], reason="lost", exit_code=137)
    (evicted,) = history.settled()
    assert (type(evicted), evicted.reason) == (GangEvicted, "worker-failed")
    history.exits("e", ranks=[1], reason="stopped", exit_code=143)
    assert tags(history.settled())[:1] == ["gang.released"]
    assert history.state.jobs["e"].lost == 1


def test_a_worker_that_fails_fails_its_gang(running):
    history = running
    history.exits("e", ranks=[1], exit_code=3)
    assert tags(history.settled()) == ["gang.evicted"]
    history.exits("e", ranks=[0], reason="stopped", exit_code=143)
    finished = of(JobFinished, history.settled())[0]
    assert (finished.outcome, finished.exit_code) == ("failed", 3)


@pytest.mark.parametrize(("reason", "code"), [("exited", 0), ("exited", 9), ("stopped", 143)])
def test_how_a_rank_ends_that_was_shrunk_away_says_nothing_of_the_job(empty_history, reason, code):
    history = empty_history
    fleet(history, 2, vision={"quota_milli": 8000}, ads={"quota_milli": 0})
    elastic(history, "e", project="ads", least=1, most=2)
    history.settled()
    history.starts("e")
    history.settled()
    history.job("v", project="vision", gpus=8000)
    assert tags(history.settled()) == ["gang.shrunk"]
    history.exits("e", ranks=[1], reason=reason, exit_code=code)
    history.exits("e", ranks=[0])
    (finished,) = of(JobFinished, history.settled())
    assert (finished.job, finished.outcome) == ("e", "succeeded")


def test_who_came_too_late_to_join_is_stopped_and_says_nothing_of_the_job(running):
    history = running
    history.node("n3")
    history.node("n4")
    history.settled()
    history.starts("e", ranks=[2])
    history.exits("e", ranks=[0, 1])
    (shrunk,) = history.settled()
    assert (shrunk.ranks, shrunk.reason) == ((3,), "finished")
    history.exits("e", ranks=[3], reason="stopped")
    history.settled()
    history.exits("e", ranks=[2], exit_code=1)  # the rendezvous had closed
    (finished,) = of(JobFinished, history.settled())
    assert finished.outcome == "succeeded"


def test_what_each_worker_used_is_exact(running):
    history = running
    placed_us = history.now_us
    history.node("n3")
    history.settled()
    grown_us = history.now_us
    history.now_us += 5_000_000
    history.exits("e")
    ended_us = history.now_us
    later, first = history.settled()[:2]
    assert (later.milli, later.held_us) == (8000, ended_us - grown_us)
    assert first.milli == 16000
    assert first.held_us > ended_us - placed_us


def test_a_cancelled_gang_stops_with_all_it_has(running):
    history = running
    history.node("n3")
    history.settled()
    history.cancel("e")
    assert tags(history.settled()) == ["gang.evicted"]
    history.exits("e", reason="stopped", exit_code=143)
    assert tags(history.settled()) == ["workers.released", "gang.released", "job.finished"]


def test_a_snapshot_loses_nothing_of_a_gang_that_grows_and_shrinks(running):
    history = running
    history.node("n3")
    history.cut()
    assert tags(history.settled()) == ["gang.grown"]
    history.cut()
    history.node("n4")
    assert tags(history.settled()) == ["gang.grown"]
    history.node("n2", boot="boot-2")
    history.cut()
    assert tags(history.settled()) == ["workers.released", "gang.grown"]
