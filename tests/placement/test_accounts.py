"""As which account a user's jobs run, and whose jobs nodes take that isolate none."""

import msgspec
import pytest
from tests.placement.conftest import History

from headrace.bus.agents import Desired
from headrace.events.accounts import EVERYBODY, UNISOLATED, AccountAssigned
from headrace.events.gangs import GangPlaced
from headrace.events.nodes import NodeChangeRequested
from headrace.events.platform import ServiceLed
from headrace.placement.desired import DesiredStates
from headrace.placement.explain_rules import explain
from headrace.vault import new_signing_keys


def numbers(events):
    return [(e.project, e.user, e.account) for e in events if isinstance(e, AccountAssigned)]


def placements(events):
    return [event.job for event in events if isinstance(event, GangPlaced)]


def limited(history, **settings):
    history.given(ServiceLed(service="placement", epoch=1, decision_version="", settings=settings))


def test_each_user_of_each_project_gets_a_number_before_the_first_gang_is_placed(history):
    history.queue("other")
    history.job("a", account=False)
    history.job("b", account=False, user="bob")
    history.job("c", account=False, project="other")
    history.job("d", account=False)
    decided = history.settled()
    assert numbers(decided) == [("default", "ada", 1), ("default", "bob", 2), ("other", "ada", 3)]
    assert sorted(placements(decided)) == ["a", "b", "c", "d"]
    last = max(i for i, e in enumerate(decided) if isinstance(e, AccountAssigned))
    assert last < min(i for i, e in enumerate(decided) if isinstance(e, GangPlaced))


def test_a_number_stays_its_users_through_snapshots_and_is_never_given_again(history):
    history.job("a", account=False)
    history.settled()
    history.starts("a")
    history.exits("a")
    history.settled()
    history.cut()
    history.job("b", account=False)
    assert numbers(history.settled()) == []
    history.job("c", account=False, user="bob")
    assert numbers(history.settled()) == [("default", "bob", 2)]


def test_what_is_decided_again_from_a_snapshot_is_the_same(history):
    history.job("a", account=False)
    history.job("b", account=False, user="bob")
    history.cut()
    again = History()
    again.entries, again.now_us = list(history.entries), history.now_us
    again.state = msgspec.json.decode(msgspec.json.encode(history.state), type=type(history.state))
    assert history.settled() == again.settled()


def test_the_node_is_told_the_number(history):
    history.job("a", account=False, user="bob", gpus=0)
    (_, placed) = history.settled()
    history.starts("a")
    private, _ = new_signing_keys()
    node = placed.workers[0].node
    made = DesiredStates(launches=None, grant_key=private, settled=lambda _node: 0)
    signed = made.document(made.said(history.state, node), (1, 9))
    (assignment,) = msgspec.json.decode(signed.document, type=Desired).assignments
    assert (assignment.user, assignment.account) == ("bob", 1)


@pytest.mark.parametrize("limit", ["accounts_max", "accounts_project_max"])
def test_who_finds_all_accounts_assigned_waits_and_is_told_why(history, limit):
    limited(history, **{limit: 1})
    history.job("a", account=False)
    history.job("b", account=False, user="bob")
    assert placements(history.settled()) == ["a"]
    found = explain(history.state, "b", history.now_us)
    assert (found.rule, found.text.startswith("waits for an account: ")) == ("no-account", True)
    assert "jobs ran" in found.text
    history.job("c", account=False)
    assert placements(history.settled()) == ["c"]

    limited(history, **{limit: 2})

    decided = history.settled()
    assert (numbers(decided), placements(decided)) == ([("default", "bob", 2)], ["b"])


def test_what_lacks_an_account_keeps_nothing_from_others(empty_history):
    history = empty_history
    history.node("n1", gpus=1)
    history.queue("default")
    limited(history, accounts_project_max=1)
    history.job("first", account=False, gpus=0)
    history.settled()
    history.job("lacks", account=False, user="bob", priority=90)
    history.job("fits", account=False)
    assert placements(history.settled()) == ["fits"]


def test_a_node_that_isolates_nothing_takes_only_the_jobs_of_whom_it_trusts(empty_history):
    history = empty_history
    history.node("n1", isolation=UNISOLATED, trusted="admin")
    history.queue("default")
    history.job("a")
    history.job("b", user="admin")
    assert placements(history.settled()) == ["b"]
    found = explain(history.state, "a", history.now_us)
    assert found.excluded == {"isolate no jobs and run only those of admin": 1}
    assert "headrace up --trust-everybody" in found.text

    history.node("n1", isolation=UNISOLATED, trusted=EVERYBODY, incarnation="j2")

    assert placements(history.settled()) == ["a"]


def test_a_node_that_trusts_nobody_and_isolates_nothing_takes_no_jobs(empty_history):
    history = empty_history
    history.node("n1", isolation=UNISOLATED)
    history.queue("default")
    history.job("a", user="")
    history.job("b", user="admin")
    assert history.settled() == []


def test_the_trusted_go_to_any_node_and_others_to_those_that_isolate(empty_history):
    history = empty_history
    history.node("n1", gpus=1, isolation=UNISOLATED, trusted="admin")
    history.node("n2", gpus=1)
    history.queue("default")
    history.job("a", user="ada")
    history.job("b", user="admin")
    history.settled()
    assert [history.placed(job).workers[0].node for job in ("a", "b")] == ["n2", "n1"]


def test_trust_goes_with_the_node_that_gave_it(empty_history):
    history = empty_history
    history.node("n1", isolation=UNISOLATED, trusted="admin")
    history.queue("default")
    history.given(NodeChangeRequested(node="n1", change="delete"))
    history.settled()
    history.node("n2", isolation=UNISOLATED, trusted="eve")
    history.job("a", user="admin")
    assert history.settled() == []
