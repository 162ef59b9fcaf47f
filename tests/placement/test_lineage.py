"""A log that goes on from an older copy of itself, and the nodes that knew more of it."""

import asyncio

import msgspec
import pytest
from tests.placement.agents import Agent, Platform, until

from headrace.bus.agents import Hello, Launch, Pull
from headrace.events.gangs import GangPlaced
from headrace.events.jobs import JobFinished
from headrace.events.nodes import HeldWorker, NodeAhead, NodeChangeRequested, NodeHolds
from headrace.events.platform import LogBegan
from headrace.events.queues import Queue, QueueConfigured
from headrace.placement import claims, lineage_rules
from headrace.placement.derived import build, index_of
from headrace.placement.lineage_rules import apart
from headrace.placement.state import State

LAUNCH = Launch(command=("true",))
FIRST, SECOND = "a" * 32, "b" * 32


class Follower(Agent):
    """An agent that says which log it follows."""

    def follow(self, lineage, incarnation):
        self.lineage = lineage
        self.said = msgspec.structs.replace(self.said, incarnation=incarnation)
        self.sequence, self.desired = 0, None

    async def hello(self, *running):
        hello = Hello(node=self.said, running=running, lineage=self.lineage)
        return await self.ask("hello", hello)


def held(assignment):
    return HeldWorker(
        job=assignment.job,
        attempt=assignment.attempt,
        rank=assignment.rank,
        project=assignment.project,
        devices=tuple(share.device for share in assignment.shares),
    )


@pytest.fixture(autouse=True)
def _believed_at_once(monkeypatch):
    monkeypatch.setattr(claims, "QUIET_S", 0.0)  # the one before has ended: it is the same agent


async def begun():
    platform = Platform({"silence_s": 3600})
    await platform.start()
    await platform.append(LogBegan(lineage=FIRST, epoch=1))
    queue = Queue(queue="vision", kind="project")
    await platform.append(QueueConfigured(name="vision", queue=queue, change="created"))
    agent = Follower(platform)
    await agent.start()
    return platform, agent


async def restored(platform):
    await platform.append(LogBegan(lineage=SECOND, epoch=2, how="restored", before=FIRST))
    await until(lambda: platform.host.state.lineage.name == SECOND)


def unsettled(platform):
    """The nodes that an admitted job looks at; the same as whoever starts from a snapshot has."""
    state = platform.host.state
    kept = set(index_of(state).unsettled)
    assert kept == set(build(msgspec.json.decode(msgspec.json.encode(state), type=State)).unsettled)
    return kept


async def test_documents_name_the_line_of_history_that_they_are_from():
    platform, agent = await begun()
    assert (agent.desired.lineage, agent.desired.lineage_epoch) == (FIRST, 1)
    await platform.stop()


async def test_an_agent_of_another_line_is_told_of_this_one_and_nothing_else():
    platform, agent = await begun()
    await platform.submit("j1", LAUNCH)
    granted = await agent.granted()
    await restored(platform)
    agent.lineage = FIRST
    for told in (await agent.hello(held(granted)), await agent.ask("pull", Pull(lineage=FIRST))):
        assert (told.lineage, told.lineage_epoch, told.assignments) == (SECOND, 2, ())
    await platform.submit("j2", LAUNCH)
    agent.follow(SECOND, "i2")
    told = await agent.hello(held(granted))
    assert told.incarnation == "i2"
    assert {a.job for a in told.assignments} >= {"j1"}, "what fits the log goes on"
    await until(lambda: len(platform.events(GangPlaced)) == 2)
    await platform.stop()


async def test_nothing_is_placed_on_a_node_that_has_not_said_what_runs_there():
    platform, agent = await begun()
    assert unsettled(platform) == set()
    await restored(platform)
    assert unsettled(platform) == {"n1"}
    await platform.submit("j1", LAUNCH)
    assert not platform.events(GangPlaced)
    assert "headrace node forget n1" in apart(platform.host.state)["n1"]
    agent.follow(SECOND, "i2")
    await agent.hello()
    await until(lambda: platform.events(GangPlaced))
    assert not apart(platform.host.state)
    assert unsettled(platform) == set()
    await platform.stop()


async def test_what_the_log_does_not_know_keeps_its_devices_and_its_job_until_it_is_ended():
    platform, agent = await begun()
    await platform.submit("lost", LAUNCH, gang=_gang(1))
    granted = await agent.granted()
    await restored(platform)  # as if it had been placed by what the copy lacks
    stray = HeldWorker(
        job="known", attempt=1, rank=0, project="vision", devices=(f"{agent.said.node}-1",)
    )
    await platform.submit("known", LAUNCH)
    agent.follow(SECOND, "i2")
    await agent.hello(held(granted), stray)
    (fact,) = platform.events(NodeHolds)
    assert fact.workers == (stray,)
    assert unsettled(platform) == {"n1"}
    await platform.submit("other", LAUNCH)
    await agent.ask("pull", Pull(lineage=SECOND))
    assert {e.job for e in platform.events(GangPlaced)} == {"lost"}, "its device counts as busy"
    assert "node end-strays n1" in apart(platform.host.state)["n1"]

    await platform.append(NodeChangeRequested(node="n1", change="end-strays"))
    await until(lambda: [a for a in agent.desired.assignments if a.job == "known"])
    (order,) = [a for a in agent.desired.assignments if a.job == "known"]
    assert (order.stop, order.attempt, order.sealed) == (True, 1, b"")
    await agent.send(agent.report("exited", order))
    await agent.hello(held(granted))
    await until(lambda: len(platform.events(GangPlaced)) == 2)
    assert not [a for a in agent.desired.assignments if a.job == "known" and a.stop]
    await platform.stop()


async def test_of_hellos_that_come_at_once_the_last_one_counts():
    """As they do from an agent that was cut off, and in the meantime ended what is elsewhere by now."""
    platform, agent = await begun()
    gone = HeldWorker(
        job="gone", attempt=1, rank=0, project="vision", devices=(f"{agent.said.node}-0",)
    )
    agent.lineage = FIRST
    hellos = (agent.hello(gone), agent.hello(gone), agent.hello())
    await asyncio.gather(*hellos)
    await until(lambda: platform.events(NodeHolds)[-1:] and not platform.host.pending)
    assert platform.host.state.machines["n1"].strays == ()
    await platform.stop()


async def test_a_node_that_obeyed_what_this_log_lacks_takes_no_work_and_says_so():
    platform, agent = await begun()
    await agent.ask("pull", Pull(lineage=FIRST, obeyed=10_000))
    await until(lambda: platform.events(NodeAhead))
    assert platform.events(NodeAhead)[0].obeyed == 10_000
    await platform.submit("j1", LAUNCH)
    await agent.ask("pull", Pull(lineage=FIRST, obeyed=10_000))
    assert not platform.events(GangPlaced)
    assert len(platform.events(NodeAhead)) == 1
    assert "headrace up --restored" in apart(platform.host.state)["n1"]
    await platform.stop()


async def test_a_fork_ends_the_jobs_and_leaves_the_nodes_to_the_log_before_it():
    platform, agent = await begun()
    await platform.submit("j1", LAUNCH)
    await agent.granted()
    await platform.append(LogBegan(lineage=SECOND, epoch=2, how="forked", before=FIRST))
    await until(lambda: platform.events(JobFinished))
    (finished,) = platform.events(JobFinished)
    assert (finished.outcome, finished.reason) == ("cancelled", "forked")
    await until(lambda: not platform.host.state.machines)
    await platform.stop()


def _gang(gpus):
    from headrace.events.asked import Accelerator, Gang

    return Gang(accelerators=(Accelerator(milli=1000 * gpus),))


class Unlooked(dict):
    """Nodes that nobody goes through."""

    def values(self):
        raise AssertionError("all nodes were gone through")

    items = __iter__ = values


async def test_a_job_costs_the_same_however_many_nodes_there_are():
    platform, agent = await begun()
    await platform.submit("j1", LAUNCH)
    await agent.granted()
    state = platform.host.state
    state.machines = Unlooked(state.machines)
    lineage_rules.admitted(state, "j1", state.jobs["j1"])
    assert not state.jobs["j1"].doubted
    await platform.stop()
