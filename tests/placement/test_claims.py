"""Two agents with one identity, strangers, and nodes that were deleted."""

import asyncio

import msgspec
import pytest

from headrace.bus import subjects
from headrace.bus.agents import Assignment, Hello, Signal
from headrace.bus.interface import NoReply
from headrace.events.members import MemberAdmitted
from headrace.events.nodes import NodeChangeRequested, NodeContested, NodeJoined
from headrace.placement.claims import LATE_S, QUIET_S, Claims, Verdict
from headrace.placement.state import Machine, State
from headrace.runtime import host

from .agents import WAIT_S, Agent, Platform, until


def said(incarnation="i1", key="k", node="n1"):
    return NodeJoined(
        node=node, host="box", address="10.0.0.1", boot="b", incarnation=incarnation, public_key=key
    )


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def claims(clock):
    return Claims(lambda: clock[0])


def known(**members):
    return State(machines={"n1": Machine(said=said(), joined=1)}, members=members)


def test_a_new_node_and_one_that_says_the_same_are_believed(claims):
    assert claims.judge(said(), State()) is Verdict.BELIEVED
    assert claims.judge(said(), known()) is Verdict.BELIEVED


def test_an_agent_whose_predecessor_is_quiet_is_believed(claims, clock):
    claims.heard("n1", "i1", known())
    assert claims.judge(said("i2"), known()) is Verdict.WAITS
    clock[0] += QUIET_S
    assert claims.judge(said("i2"), known()) is Verdict.BELIEVED


def test_saying_hello_is_being_heard(claims, clock):
    """A second agent that comes before the first heartbeat, or before the first is in the log."""
    claims.judge(said(), State())
    clock[0] += 1
    assert claims.judge(said("i2"), State()) is Verdict.WAITS
    assert claims.judge(said("i2"), known()) is Verdict.WAITS
    clock[0] += LATE_S + 1
    claims.judge(said(), known())
    assert claims.judge(said("i2"), known()) is Verdict.SECOND


def test_who_has_just_begun_to_lead_takes_everybody_for_heard(claims, clock):
    assert claims.judge(said("i2"), known()) is Verdict.WAITS
    clock[0] += QUIET_S
    assert claims.judge(said("i2"), known()) is Verdict.BELIEVED


def test_of_two_agents_the_second_is_turned_away(claims, clock):
    claims.heard("n1", "i1", known())
    clock[0] += 1
    assert claims.judge(said("i2"), known()) is Verdict.WAITS
    claims.heard("n1", "i2", known())
    assert claims.judge(said("i2"), known()) is Verdict.WAITS, "its own signals prove nothing"
    clock[0] += LATE_S
    claims.heard("n1", "i1", known())
    assert claims.judge(said("i2"), known()) is Verdict.WAITS, "that may have been under way"
    clock[0] += 1
    claims.heard("n1", "i1", known())
    assert claims.judge(said("i2"), known()) is Verdict.SECOND


@pytest.mark.parametrize("key", ["other", ""])
def test_keys_that_are_not_the_members_are_a_strangers(claims, key):
    assert claims.judge(said(key="k"), known(n1=key)) is Verdict.STRANGER
    assert claims.judge(said(key="k"), known(n1="k")) is Verdict.BELIEVED


@pytest.fixture
async def platform(monkeypatch):
    monkeypatch.setattr(host, "LEASE_S", 60.0)  # it leads, though the machine stands still
    platform = Platform({"silence_s": 600})
    await platform.start()
    yield platform
    await platform.stop()
    await platform.bus.close()


@pytest.fixture
async def agent(platform):
    agent = Agent(platform)
    await agent.start()
    yield agent
    await agent.bus.close()


async def answer(agent, hello):
    """What a hello is answered with; None while placement makes up its mind."""
    subject = subjects.agent_up(agent.said.node, "hello")
    try:
        reply = await agent.bus.request(subject, msgspec.json.encode(hello), timeout_s=0.05)
    except NoReply:
        return None
    return agent.take(reply.data)


async def test_a_second_agent_is_told_and_the_log_says_so_once(platform, agent):
    node, subject = agent.said.node, subjects.agent_up(agent.said.node, "signal")
    beat = msgspec.json.encode(Signal(node=node, incarnation=agent.said.incarnation))
    second = Hello(node=said("another", agent.said.public_key, node))
    dismissed = []
    async with asyncio.timeout(WAIT_S):
        while len(dismissed) < 2:
            await agent.bus.publish(subject, beat)
            document = await answer(agent, second)
            dismissed += [document.dismissed] if document is not None else []
    assert all(line.startswith("another agent is node n1, on n1") for line in dismissed)
    await until(lambda: platform.events(NodeContested))
    assert len(platform.events(NodeContested)) == 1
    assert len(platform.events(NodeJoined)) == 1, "nothing of the node has changed"


async def test_a_deleted_node_is_told_at_once_and_not_believed_again(platform, agent):
    node, key = agent.said.node, agent.said.public_key
    await platform.append(
        MemberAdmitted(node=node, public_key="U", box_key=key),
        NodeChangeRequested(node=node, change="delete"),
    )
    await until(lambda: agent.desired is not None and agent.desired.dismissed)
    document = await agent.ask("hello", Hello(node=agent.said))
    assert document.dismissed == f"node {node} was deleted"
    assert len(platform.events(NodeJoined)) == 1
    wanted = Assignment(job="a", attempt=1, rank=0, position=1, project="vision")
    events = len(platform.log.events)
    for what, body in (
        ("pull", {}),
        ("report", {"node": node, "boot": "b1", "incarnation": "i1",
                    "reports": [agent.report("started", wanted)]}),
    ):  # fmt: skip
        answer = await agent.ask(what, body)
        assert (answer.dismissed, answer.assignments) == (document.dismissed, ())
    assert len(platform.log.events) == events
