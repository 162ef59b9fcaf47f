"""What operators do to take a node out: drain, delete, forget."""

import pytest
from tests.placement.conftest import SECOND_US

from headrace.events.gangs import GangEvicted
from headrace.events.jobs import Checkpoint
from headrace.events.members import MemberAdmitted
from headrace.events.nodes import NodeChanged, NodeChangeRequested, NodeHeard, NodeSilent
from headrace.placement.decide import wakeup


@pytest.fixture
def fleet(empty_history):
    empty_history.node("n1")
    empty_history.node("n2")
    empty_history.queue("default")
    return empty_history


def ask(history, change, node="n1"):
    return history.given(NodeChangeRequested(node=node, change=change))


def placed_on(history, job):
    return [worker.node for worker in history.state.jobs[job].run.workers]


def test_a_drained_nodes_jobs_move_and_none_come(fleet):
    fleet.job("a")
    fleet.settled()
    fleet.starts("a")
    fleet.settled()
    (node,) = placed_on(fleet, "a")
    position = ask(fleet, "drain", node)
    changed, evicted = fleet.settled()
    assert changed == NodeChanged(node=node, change="drain")
    assert isinstance(evicted, GangEvicted)
    assert evicted.reason == "node-drain"
    assert fleet.state.machines[node].draining == position + 1
    fleet.exits("a", reason="stopped", exit_code=143)
    fleet.settled()
    assert placed_on(fleet, "a") == [{"n1": "n2", "n2": "n1"}[node]]
    assert fleet.state.jobs["a"].lost == 0, "it is nobody's fault"


def test_who_can_save_itself_is_asked_to_by_its_signal_when_its_node_is_drained(fleet):
    fleet.job("a", checkpoint=Checkpoint(signal="USR1", grace_us=90 * SECOND_US))
    fleet.settled()
    fleet.starts("a")
    fleet.settled()
    (node,) = placed_on(fleet, "a")
    ask(fleet, "drain", node)
    _, evicted = fleet.settled()
    assert (evicted.reason, evicted.way) == ("node-drain", "signal")


def test_a_drained_nodes_jobs_may_end_until_the_deadline(fleet):
    fleet.job("a")
    fleet.settled()
    fleet.starts("a")
    fleet.settled()
    (node,) = placed_on(fleet, "a")
    fleet.given(NodeChangeRequested(node=node, change="drain", deadline_us=600 * SECOND_US))
    (changed,) = fleet.settled()
    assert changed == NodeChanged(node=node, change="drain", deadline_us=600 * SECOND_US)
    fleet.job("b", gpus=4000)
    fleet.settled()
    assert placed_on(fleet, "b") != [node], "it takes no new work"
    drains_at_us = fleet.state.machines[node].drains_at_us
    assert wakeup(fleet.state) == drains_at_us
    fleet.cut()
    assert fleet.settled() == []
    assert wakeup(fleet.state) == drains_at_us, "a new leader knows it too"
    fleet.now_us = drains_at_us
    (evicted,) = fleet.settled()
    assert (evicted.job, evicted.reason) == ("a", "node-drain")


def test_drained_at_once_after_all_it_asks_them_at_once(fleet):
    fleet.job("a")
    fleet.settled()
    (node,) = placed_on(fleet, "a")
    fleet.given(NodeChangeRequested(node=node, change="drain", deadline_us=600 * SECOND_US))
    fleet.settled()
    ask(fleet, "drain", node)
    changed, evicted = fleet.settled()
    assert (changed.change, evicted.reason) == ("drain", "node-drain")


def test_a_node_that_is_uncordoned_drains_no_more(fleet):
    ask(fleet, "drain")
    fleet.settled()
    ask(fleet, "uncordon")
    fleet.settled()
    assert not fleet.state.machines["n1"].draining
    assert fleet.state.nodes["n1"].accepting


def test_a_node_is_deleted_when_nothing_runs_there(fleet):
    fleet.job("a")
    fleet.settled()
    (node,) = placed_on(fleet, "a")
    ask(fleet, "delete", node)
    (refused,) = fleet.settled()
    assert str(refused.refusal) == (
        f"refused: node = {node} — 1 job runs there: a; headrace node drain {node} first"
    )
    other = {"n1": "n2", "n2": "n1"}[node]
    ask(fleet, "delete", other)
    assert fleet.settled() == [NodeChanged(node=other, change="delete")]
    assert list(fleet.state.nodes) == [node]
    fleet.cut()
    fleet.job("b", gpus=7000)
    fleet.job("c", gpus=7000)
    fleet.settled()
    assert placed_on(fleet, "b") == [node]
    assert fleet.state.jobs["c"].run is None, "there is no other node any more"


def test_a_deleted_nodes_keys_are_worth_nothing_until_it_is_admitted_again(fleet):
    ask(fleet, "delete")
    fleet.settled()
    assert fleet.state.members["n1"] == ""
    fleet.given(MemberAdmitted(node="n1", public_key="UA", box_key="b"))
    assert fleet.state.members["n1"] == "b"


def test_a_forgotten_node_is_fenced_says_what_it_gives_up_and_is_no_more(fleet):
    fleet.job("a")
    fleet.settled()
    (node,) = placed_on(fleet, "a")
    fleet.given(NodeSilent(node=node))
    ask(fleet, "forget", node)
    changed, *more = fleet.settled()
    assert changed == NodeChanged(node=node, change="forget", given_up=("a",))
    assert NodeChanged(node=node, change="delete") in more
    assert node not in fleet.state.nodes
    assert not fleet.state.forgotten
    assert placed_on(fleet, "a") != [node]
    fleet.cut()


def test_a_node_that_is_heard_is_not_forgotten(fleet):
    fleet.given(NodeSilent(node="n1"), NodeHeard(node="n1"))
    ask(fleet, "forget")
    (refused,) = fleet.settled()
    assert "is heard, so it says itself what runs there" in str(refused.refusal)
