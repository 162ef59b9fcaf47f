"""Jobs that are to be replaced when their node cannot be heard: when, and when not."""

import pytest

from headrace.events import tag_of
from headrace.events.attempts import AttemptExpired, AttemptStarted
from headrace.events.gangs import GangPlaced
from headrace.events.jobs import JobFinished
from headrace.events.nodes import NodeHeard, NodeSilent
from headrace.placement.lease_rules import due_us

MINUTE_US = 60_000_000
YEAR_US = 365 * 86_400_000_000
ENDED_US = 75_000_000  # a minute's lease, ten seconds of grace, five of margin


def tags(events):
    return [tag_of(event).removesuffix(".v1") for event in events]


@pytest.fixture
def fleet(history):
    """Four nodes; `a` may be replaced after a minute, `b` is kept; both run, on other nodes."""
    for name in ("n3", "n4"):
        history.node(name)
    history.job("a", gpus=8000, replace_after_us=MINUTE_US)
    history.job("b", gpus=8000)
    history.settled()
    history.starts("a")
    history.starts("b")
    history.settled()
    return history


def silent(history, *nodes, for_us=10_000_000):
    history.given(*(NodeSilent(node=node, silent_us=for_us) for node in nodes))


def node_of(history, job):
    return history.placed(job).workers[0].node


def test_who_may_be_replaced_is_run_elsewhere_when_its_lease_has_ended(fleet):
    first = node_of(fleet, "a")
    silent(fleet, first)
    silent(fleet, first, for_us=ENDED_US)
    expired, released, placed = fleet.settled()
    assert isinstance(expired, AttemptExpired)
    assert (expired.job, expired.attempt, expired.rank, expired.node) == ("a", 1, 0, first)
    assert expired.act.rule == "lease-ended"
    assert released.again
    assert isinstance(placed, GangPlaced)
    assert (placed.attempt, node_of(fleet, "a") != first) == (2, True)


@pytest.mark.parametrize("for_us", [10_000_000, MINUTE_US, ENDED_US - 1])
def test_nothing_is_replaced_before_lease_grace_and_margin_are_over(fleet, for_us):
    node = node_of(fleet, "a")
    silent(fleet, node)
    silent(fleet, node, for_us=for_us)
    fleet.now_us += 1_000 * ENDED_US  # no wall clock makes it so
    assert fleet.settled() == []


def test_who_is_kept_is_kept_for_ever(fleet):
    silent(fleet, node_of(fleet, "b"), for_us=365 * 86_400_000_000)
    assert fleet.settled() == []


def test_where_many_go_silent_together_all_keep_what_they_run(fleet):
    node = node_of(fleet, "a")
    other = next(name for name in ("n1", "n2", "n3", "n4") if name != node)
    silent(fleet, node, other)
    silent(fleet, node, for_us=ENDED_US)
    assert fleet.settled() == []
    fleet.given(NodeHeard(node=other))
    assert tags(fleet.settled())[0] == "attempt.expired"


def test_a_node_that_has_long_been_gone_keeps_nobody_from_being_replaced(fleet):
    node = node_of(fleet, "a")
    other = next(name for name in ("n1", "n2", "n3", "n4") if name != node)
    silent(fleet, other)
    fleet.now_us += 10 * MINUTE_US
    silent(fleet, node)
    silent(fleet, node, for_us=ENDED_US)
    assert tags(fleet.settled())[0] == "attempt.expired"


@pytest.mark.parametrize(("gone", "replaced"), [(3, True), (4, False)])
def test_of_a_large_fleet_a_tenth_is_many(history, gone, replaced):
    for number in range(3, 41):
        history.node(f"n{number}")
    history.job("a", gpus=8000, replace_after_us=MINUTE_US)
    history.settled()
    node = node_of(history, "a")
    others = [name for name in sorted(history.state.machines) if name != node]
    silent(history, node, *others[: gone - 1])
    silent(history, node, for_us=ENDED_US)
    assert (tags(history.settled())[:1] == ["attempt.expired"]) is replaced


def test_a_node_that_is_heard_again_counts_anew(fleet):
    node = node_of(fleet, "a")
    silent(fleet, node)
    silent(fleet, node, for_us=MINUTE_US)
    fleet.given(NodeHeard(node=node))
    silent(fleet, node)
    assert fleet.settled() == []
    assert fleet.state.machines[node].silent_us == 10_000_000


def test_a_report_after_the_lease_changes_nothing_any_more(fleet):
    first = node_of(fleet, "a")
    silent(fleet, first)
    silent(fleet, first, for_us=ENDED_US)
    fleet.settled()
    fleet.given(NodeHeard(node=first))
    fleet.exits("a", attempt=1, reason="stopped")
    fleet.starts("a")
    fleet.settled()
    fleet.exits("a")
    end = fleet.settled()[-1]
    assert isinstance(end, JobFinished)
    assert (end.outcome, end.attempt) == ("succeeded", 2)


def test_the_others_of_a_gang_are_stopped_and_it_starts_again(history):
    history.node("n3")
    history.job("a", gpus=8000, nodes=2, replace_after_us=MINUTE_US)
    history.settled()
    history.starts("a")
    history.settled()
    placed = history.placed("a")
    silent(history, placed.workers[1].node)
    silent(history, placed.workers[1].node, for_us=ENDED_US)
    assert tags(history.settled()) == ["attempt.expired", "gang.evicted"]
    history.exits("a", ranks=[0], reason="stopped", exit_code=143)
    assert tags(history.settled()) == ["gang.released", "gang.placed"]


def test_the_silence_to_record_next_is_that_of_the_longest_lease_that_has_ended(fleet):
    node, state = node_of(fleet, "a"), fleet.state
    silent(fleet, node)
    assert due_us(state, node, ENDED_US - 1) == 0
    assert due_us(state, node, ENDED_US + 5) == ENDED_US
    silent(fleet, node, for_us=ENDED_US)
    assert due_us(state, node, 2 * ENDED_US) == 0
    assert due_us(state, node_of(fleet, "b"), 2 * ENDED_US) == 0


def test_the_state_survives_a_snapshot(fleet):
    node = node_of(fleet, "a")
    silent(fleet, node)
    fleet.cut()
    silent(fleet, node, for_us=ENDED_US)
    assert tags(fleet.settled())[0] == "attempt.expired"


@pytest.mark.parametrize("ahead_us", [YEAR_US, -YEAR_US])
def test_a_nodes_wrong_clock_moves_no_deadline(history, ahead_us):
    history.job("a", max_duration_us=5_000_000)
    history.settled()
    history.starts("a", at_us=history.now_us + ahead_us)
    (started,) = history.settled()

    (heard,) = (e for e in history.entries if isinstance(e.event, AttemptStarted))
    assert history.state.jobs["a"].run.begun_us == heard.recorded_at_us
    assert started.waited_us < YEAR_US // 2
    history.exits("a", at_us=history.now_us - ahead_us)
    assert history.settled()[-1].outcome == "succeeded"
