"""How many jobs a queue may lose to others, and when it may lose the next."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.decider import fold
from headrace.events.gangs import GangEvicted
from headrace.placement.decide import DECIDER
from headrace.placement.explain_rules import explain
from headrace.scheduling.rations import path_up

from .conftest import History

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
FOR_OTHERS = ("reclaimed", "preempted", "moved")
BUDGETS = {"research": (3, 100 * SECOND_US), "ads": (2, 40 * SECOND_US), "lab": (2, HOUR_US)}


def two_teams(history, *, research=(0, 0), ads=(0, 0)):
    """Eight GPUs, all with ads, of which vision is guaranteed six."""
    history.node("n1")
    history.queue(
        "research", kind="department", quota_milli=-1,
        evictions_max=research[0], evictions_per_us=research[1],
    )  # fmt: skip
    history.queue("vision", parent="research", quota_milli=6000)
    history.queue("ads", parent="research", evictions_max=ads[0], evictions_per_us=ads[1])
    for number in range(8):
        history.job(f"a{number}", project="ads")
    history.settled()


def evicted(events):
    return [event.job for event in events if isinstance(event, GangEvicted)]


def stop(history, jobs):
    """The jobs stop and are cancelled, so that they do not come back."""
    for job in jobs:
        history.cancel(job, project="ads")
        history.exits(job, reason="stopped", exit_code=143)


def test_a_project_loses_no_more_than_its_budget_until_the_window_moves_on(empty_history):
    history = empty_history
    two_teams(history, ads=(2, HOUR_US))
    for number in range(3):
        history.job(f"v{number}", project="vision")
    lost = evicted(history.settled())
    assert lost == ["a7", "a6"]
    stop(history, lost)
    assert evicted(history.settled()) == []
    first_us = history.state.evictions["ads"][0]
    while (moment_us := DECIDER.wakeup(history.state)) < first_us + HOUR_US:
        history.now_us = moment_us
        assert evicted(history.settled()) == []
    assert moment_us == first_us + HOUR_US
    history.now_us = moment_us
    assert evicted(history.settled()) == ["a5"]


def test_every_level_above_counts_and_says_so(empty_history):
    history = empty_history
    two_teams(history, research=(1, HOUR_US), ads=(5, HOUR_US))
    history.job("v0", project="vision")
    history.job("v1", project="vision")
    assert evicted(history.settled()) == ["a7"]
    stop(history, ["a7"])
    history.settled()
    found = explain(history.state, "v1", history.now_us)
    assert found.kept["of research, which may lose no more for now"] == 7
    assert found.names["budget"] == "research"
    assert found.numbers["evictions_max"] == 1
    assert found.numbers["evictions_per_us"] == HOUR_US
    at_us = history.state.evictions["research"][0]
    assert found.numbers["evictions_free_at_us"] == at_us + HOUR_US


def test_a_gang_that_needs_more_victims_than_the_budget_has_takes_none(empty_history):
    history = empty_history
    two_teams(history, ads=(2, HOUR_US))
    history.job("v", project="vision", gpus=3000)
    assert evicted(history.settled()) == []
    history.job("w", project="vision", gpus=2000)
    assert evicted(history.settled()) == ["a7", "a6"]


def test_cancellations_and_failures_spend_nothing(empty_history):
    history = empty_history
    two_teams(history, ads=(1, HOUR_US))
    history.cancel("a7", project="ads")
    assert evicted(history.settled()) == ["a7"]
    history.exits("a6", exit_code=1)
    history.settled()
    assert history.state.evictions == {}
    history.job("v", project="vision", gpus=3000)
    history.exits("a7", reason="stopped", exit_code=143)
    assert evicted(history.settled()) == ["a5"]


def test_without_a_budget_any_more_nothing_of_it_is_remembered(empty_history):
    history = empty_history
    two_teams(history, ads=(1, HOUR_US))
    history.job("v0", project="vision")
    history.job("v1", project="vision")
    assert len(evicted(history.settled())) == 1
    history.queue("ads", parent="research")
    assert len(evicted(history.settled())) == 1
    assert history.state.evictions == {}


def test_moving_spends_as_well(empty_history):
    history = empty_history
    history.node("n1", gpus=2)
    history.node("n2", gpus=2)
    history.queue("default", quota_milli=-1, evictions_max=1, evictions_per_us=HOUR_US)
    for name in ("a", "b", "c"):
        history.job(name)
        history.settled()
    history.exits("b")
    history.settled()
    history.job("two", gpus=2000)
    history.settled()
    history.now_us = DECIDER.wakeup(history.state)
    event = history.settled()[0]
    assert (event.job, event.reason) == ("c", "moved")
    assert len(history.state.evictions["default"]) == 1


moves = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.sampled_from(("vision", "ads", "lab")), st.integers(1, 3),
                  st.sampled_from((20, 40, 80))),
        st.tuples(st.just("stop"), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.sampled_from((1, 31, 70))),
        st.tuples(st.just("cut")),
    ),
    min_size=5,
    max_size=40,
)  # fmt: skip


def begin():
    history = History()
    history.node("n1", gpus=4)
    history.node("n2", gpus=4)
    for name, kind, parent in (
        ("research", "department", ""), ("ads", "project", "research"), ("lab", "project", ""),
        ("vision", "project", "research"),
    ):  # fmt: skip
        most, per_us = BUDGETS.get(name, (0, 0))
        quota = {"research": -1, "vision": 4000}.get(name, 0)
        history.queue(
            name, kind=kind, parent=parent, quota_milli=quota, evictions_max=most,
            evictions_per_us=per_us,
        )  # fmt: skip
    for number in range(4):
        history.job(f"a{number}", project="ads")
        history.job(f"l{number}", project="lab", priority=20)
    history.settled()
    return history


def play(history, move):
    if move[0] == "job":
        _, project, gpus, priority = move
        name = f"j{len(history.entries)}"
        history.job(name, project=project, gpus=gpus * 1000, priority=priority)
    elif move[0] == "wait":
        history.now_us += move[1] * SECOND_US
    elif move[0] == "cut":
        history.cut()
    else:
        stopping = [name for name, job in history.state.jobs.items() if job.run is not None]
        if stopping:
            name = stopping[move[1] % len(stopping)]
            history.exits(name, reason="stopped", exit_code=143)


def lost_by_queue(history):
    lost = {}
    for entry in history.entries:
        event = entry.event
        if isinstance(event, GangEvicted) and event.reason in FOR_OTHERS:
            for queue in path_up(history.state.queues, event.project):
                lost.setdefault(queue.queue, []).append(entry.recorded_at_us)
    return lost


@given(played=moves)
@settings(max_examples=30, deadline=None)
def test_no_window_of_any_history_holds_more_evictions_than_the_budget_at_any_level(played):
    history = begin()
    for move in played:
        play(history, move)
        history.settled()
    lost = lost_by_queue(history)
    for name, (most, per_us) in BUDGETS.items():
        moments = lost.get(name, [])
        for number, first_us in enumerate(moments):
            within = [us for us in moments[number:] if us < first_us + per_us]
            assert len(within) <= most, name
        known = history.state.evictions.get(name, [])
        assert len(known) <= most
        assert known == moments[len(moments) - len(known) :]
    again = fold(DECIDER, DECIDER.initial(), history.entries)
    assert msgspec.json.encode(again) == msgspec.json.encode(history.state)
    assert DECIDER.decide(again, history.now_us) == DECIDER.decide(history.state, history.now_us)
