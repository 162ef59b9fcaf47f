"""A large job that has waited long starts when it was told, whatever small work keeps coming."""

import pytest

from headrace.events.gangs import GangPlaced, GangReserved
from headrace.events.nodes import DeviceFaulted, NodeFilled, NodeSilent
from headrace.events.queues import Allowance
from headrace.placement import state as settings
from headrace.placement.decide import DECIDER
from headrace.placement.derived import build
from headrace.placement.explain_rules import explain
from headrace.verification.promises import Promises

MINUTE_US = 60_000_000


def reservations(events):
    return [event for event in events if isinstance(event, GangReserved)]


def stream_of_small_jobs(history, minutes):
    """Each minute two jobs that run for four; `big` wants the whole fleet. When it was placed."""
    began_us, running = history.now_us, {}
    history.job("big", nodes=2, gpus=8000, max_duration_us=10 * MINUTE_US)
    for minute in range(minutes):
        history.now_us = began_us + minute * MINUTE_US
        for name in [name for name, end in running.items() if end <= minute]:
            del running[name]
            history.exits(name)
        for side in "ab":
            history.job(f"{side}{minute}", gpus=4000, priority=80, max_duration_us=4 * MINUTE_US)
        events = history.settled()
        for event in events:
            if isinstance(event, GangPlaced):
                if event.job == "big":
                    return minute
                history.starts(event.job)
                running[event.job] = minute + 4
        history.cut()
    return None


def test_a_job_for_the_whole_fleet_is_not_starved_by_a_stream_of_small_ones(history):
    placed = stream_of_small_jobs(history, 30)
    told = [e.event.at_us for e in history.entries if isinstance(e.event, GangReserved)]
    assert placed is not None
    assert told == sorted(told, reverse=True)
    assert history.placed("big")
    assert history.now_us <= told[-1] + 2 * MINUTE_US


def test_without_reservations_it_is(history, monkeypatch):
    monkeypatch.setitem(settings.SETTINGS, "reserve_after_s", 100_000)
    assert stream_of_small_jobs(history, 30) is None


def reserved(history, **fields):
    """`big` waits for the one that runs, and has a reservation."""
    history.job("first", gpus=8000, max_duration_us=60 * MINUTE_US)
    history.settled()
    history.starts("first")
    history.settled()
    history.job("big", nodes=2, gpus=8000, **fields)
    assert history.settled() == []
    history.now_us = DECIDER.wakeup(history.state)
    while not (found := reservations(history.settled())):
        history.now_us = DECIDER.wakeup(history.state)
    return found


def test_time_alone_brings_a_reservation_which_is_told(history):
    (event,) = reserved(history)
    assert history.now_us >= 600_000_000
    assert {(seat.node, seat.milli, seat.count) for seat in event.seats} == {
        ("n1", 8000, 8),
        ("n2", 8000, 8),
    }
    assert event.at_us == history.state.jobs["first"].run.begun_us + 60 * MINUTE_US
    assert explain(history.state, "big", history.now_us).starts_by_us == event.at_us


def test_what_would_be_gone_in_time_is_placed_before_and_what_would_not_waits(history):
    reserved(history)
    history.job("short", max_duration_us=10 * MINUTE_US)
    history.job("long", max_duration_us=100 * MINUTE_US)
    events = history.settled()
    assert [event.job for event in events if isinstance(event, GangPlaced)] == ["short"]
    found = explain(history.state, "long", history.now_us)
    assert (found.rule, found.names) == ("reserved", {"for": "big"})


def test_a_reservation_ends_with_its_machines(history):
    reserved(history)
    history.given(NodeSilent(node="n2"))
    (gone,) = reservations(history.settled())
    assert (gone.at_us, gone.seats) == (0, ())
    assert explain(history.state, "big", history.now_us).starts_by_us == 0
    history.node("n3")
    (again,) = reservations(history.settled())
    assert {seat.node for seat in again.seats} == {"n1", "n3"}


DRAINED = DeviceFaulted(
    node="n2", device="n2-gpu0", incarnation="j1", report=1, action="drain", text="XID 79"
)
FILLED = NodeFilled(node="n2", used_permille=950, too_full=True)


@pytest.mark.parametrize(("lost", "rule"), [(DRAINED, "node-smaller"), (FILLED, "node-lost")])
def test_a_reservation_ends_with_what_it_was_made_on_and_that_is_no_broken_promise(
    history, lost, rule
):
    reserved(history)
    history.given(lost)
    (gone,) = reservations(history.settled())
    assert (gone.seats, gone.act.rule) == ((), rule)

    assert broken(history.entries) == []
    assert broken(entry for entry in history.entries if entry.event is not lost) == ["I15"]


@pytest.mark.parametrize("bound", [Allowance(quota_milli=8000), Allowance(limit_milli=8000)])
def test_a_reservation_ends_with_a_part_of_the_fleet_that_its_queue_may_not_have(history, bound):
    history.queue("default", quota_milli=-1)
    reserved(history, preemptible=False)
    assert broken(history.entries) == []

    history.queue("default", quota_milli=-1, per_type={"H100": bound})
    (gone,) = reservations(history.settled())
    assert (gone.seats, gone.act.rule) == ((), "limit-lowered")
    assert broken(history.entries) == []


def broken(entries):
    """What the judge of promises says of this log."""
    promises = Promises()
    return [name for entry in entries for name, _ in promises.check(entry)]


def test_a_state_read_anew_keeps_its_reservations(history):
    reserved(history)
    history.cut()
    build(history.state)
    assert history.settled() == []
    assert history.state.jobs["big"].reserved is not None
