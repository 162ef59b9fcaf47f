"""Placement's shell over the real runtime: agents' messages in, signed documents out."""

import msgspec
import pytest

from headrace.bus import subjects
from headrace.bus.agents import Hello, Launch, Signal
from headrace.events import tag_of
from headrace.events.access import SecretSet
from headrace.events.asked import Accelerator, Gang
from headrace.events.attempts import AttemptExited, AttemptOverran, AttemptStarted
from headrace.events.gangs import GangEvicted, GangGrown
from headrace.events.jobs import (
    JobAdmitted,
    JobCancelling,
    JobEligible,
    JobFinished,
    JobRequested,
    JobStarted,
)
from headrace.events.nodes import NodeFilled, NodeHeard, NodeJoined, NodeSilent
from headrace.events.queues import Queue, QueueConfigured
from headrace.placement import claims, durations
from headrace.runtime import host
from headrace.vault import seal_to
from headrace.vault.project_keys import ProjectKeys

from .agents import MASTER, WAIT_S, Agent, Platform, until


@pytest.fixture
async def platform(request, monkeypatch):
    monkeypatch.setattr(host, "LEASE_S", 60.0)  # it leads, though the machine stands still
    silence_s = getattr(request, "param", 600)  # no node falls silent unless a test wants it to
    platform = Platform({"silence_s": silence_s})
    await platform.start()
    queue = Queue(queue="vision", kind="project")
    await platform.append(QueueConfigured(name="vision", queue=queue, change="created"))
    yield platform
    await platform.stop()
    await platform.bus.close()


@pytest.fixture
async def agent(platform):
    agent = Agent(platform)
    await agent.start()
    yield agent
    await agent.bus.close()


async def test_a_job_goes_from_grant_to_finish(platform, agent):
    await platform.submit("a", Launch(command=("train", "${{ job.id }}", "${{ params.x }}")))
    assignment = await agent.granted()
    launch = agent.launch(assignment)
    assert launch.command == ("train", "a", "${{ params.x }}")
    assert launch.env["HEADRACE_NUM_NODES"] == "1"
    assert launch.env["MASTER_ADDR"] == "10.0.0.1"
    assert int(launch.env["MASTER_PORT"]) >= 20000
    assert assignment.traceparent == "00-trace"
    document = await agent.send(agent.report("started", assignment, enforcement="simulated"))
    assert document.recorded_through == 1
    await agent.send(agent.report("exited", assignment, reason="exited"))
    await until(lambda: platform.events(JobFinished))
    await until(lambda: not agent.desired.assignments)
    assert agent.desired.recorded_through == 2
    assert platform.events(AttemptStarted)[0].enforcement == "simulated"


async def test_a_node_is_not_told_again_what_the_answer_to_its_report_said(platform, agent):
    told = []

    async def hear(message):
        told.append(agent.take(message.data).position)

    await platform.submit("a", Launch(command=("x",)))
    assignment = await agent.granted()
    await agent.bus.subscribe(subjects.agent_down("n1", "desired"), hear)
    await agent.send(agent.report("started", assignment))
    answer = await agent.send(agent.report("exited", assignment, reason="exited"))
    assert not answer.assignments
    await until(lambda: platform.events(JobFinished))
    await platform.submit("b", Launch(command=("x",)))
    await agent.granted()
    assert len(told) == 1, "that the first has ended was news no more"


async def test_what_could_not_be_sent_is_sent_when_the_bus_is_back(platform, agent, caplog):
    told = []

    async def hear(message):
        told.extend(each.job for each in agent.take(message.data).assignments)

    await agent.bus.subscribe(subjects.agent_down("n1", "desired"), hear)
    placement = next(name for name in platform.broker.clients if name.startswith("placement-"))
    platform.broker.disconnect(placement)
    await platform.submit("a", Launch(command=("x",)))
    await until(lambda: "node not told node=n1" in caplog.text)
    platform.broker.connect(placement)
    await until(lambda: told == ["a"])


async def test_repeated_and_gapped_reports_are_recorded_once_and_in_order(platform, agent):
    await platform.submit("a", Launch(command=("x",)))
    assignment = await agent.granted()
    one = agent.report("started", assignment)
    two = agent.report("exited", assignment, reason="exited")
    assert (await agent.send(two)).recorded_through == 0
    assert (await agent.send(one, two)).recorded_through == 2
    assert (await agent.send(one, two)).recorded_through == 2
    assert len(platform.events(AttemptExited)) == 1


async def test_the_same_hello_is_recorded_once(platform, agent):
    await agent.ask("hello", Hello(node=agent.said))
    assert len(platform.events(NodeJoined)) == 1


async def test_a_sweeps_task_gets_its_parameters_and_index(platform, agent):
    trials = ({"lr": "0.1"}, {"lr": "0.2"})
    launch = Launch(command=("t", "${{ params.lr }}", "${{job.index}}"))
    group = JobAdmitted(
        job="s", project="vision", name="s", user="ada", gang=Gang(), requested_at=1, priority=40,
        tasks=2,
    )  # fmt: skip
    await platform.append(group)
    await platform.submit("s/1", launch, group="s", index=1, trials=trials)
    opened = agent.launch(await agent.granted())
    assert opened.command == ("t", "0.2", "1")
    assert opened.env["HEADRACE_PARAMS"] == '{"lr":"0.2"}'
    assert opened.env["HEADRACE_PARAM_LR"] == "0.2"


async def test_a_secret_reaches_the_worker_and_nothing_else(platform, agent):
    box = seal_to(platform.vault_public, b"canary-value", b"secret:vision/TOKEN")
    await platform.store.put_secret("vision", "TOKEN", "v1", box)
    await platform.append(SecretSet(project="vision", name="TOKEN", version="v1"))
    await platform.submit("a", Launch(command=("x",)), secrets=("TOKEN",))
    assignment = await agent.granted()
    assert agent.launch(assignment).secrets == {"TOKEN": "canary-value"}
    assert not any(b"canary-value" in s.data for s in platform.log.events)


async def test_an_erased_projects_job_is_granted_without_a_launch(platform, agent):
    key_id, _ = await ProjectKeys(platform.store, MASTER).current("vision")
    assert key_id
    await platform.store.drop_project_keys("vision")
    await platform.append(
        JobRequested(
            job="a", project="vision", name="x", user="ada", gang=Gang(), launch=b"x",
            launch_key=key_id,
        )
    )  # fmt: skip
    position = len(platform.log.events)
    await platform.append(
        JobAdmitted(
            job="a", project="vision", name="x", user="ada", gang=Gang(), requested_at=position,
            priority=40,
        ),
        JobEligible(job="a", project="vision"),
    )  # fmt: skip
    assert (await agent.granted()).sealed == b""


async def test_a_cancelled_job_is_asked_to_stop(platform, agent):
    await platform.submit("a", Launch(command=("x",)))
    assignment = await agent.granted()
    await agent.send(agent.report("started", assignment))
    await platform.append(JobCancelling(job="a", project="vision"))
    await until(lambda: agent.desired.assignments[0].stop)
    assert agent.desired.assignments[0].stop_reason == "cancelled"
    assert agent.desired.assignments[0].sealed == b""


async def test_a_new_leader_gives_the_same_grants(platform, agent):
    await platform.submit("a", Launch(command=("x",)))
    before = await agent.granted()
    await platform.stop()
    await platform.start()
    document = await agent.ask("pull", {})
    assert document.epoch == 2
    assert document.assignments[0].position == before.position
    assert agent.launch(document.assignments[0]).command == ("x",)


@pytest.mark.parametrize("platform", [1], indirect=True)
async def test_a_node_that_says_nothing_is_silent_until_it_is_heard(platform, agent):
    await until(lambda: platform.events(NodeSilent))
    signal = msgspec.json.encode(Signal(node="n1", incarnation="i1"))
    await agent.bus.publish(subjects.agent_up("n1", "signal"), signal)
    await until(lambda: platform.events(NodeHeard))
    of_node = [event.type for event in platform.log.events if event.type.startswith("node.")]
    assert of_node[:3] == [tag_of(kind) for kind in (NodeJoined, NodeSilent, NodeHeard)]


async def test_a_full_disk_is_told_once_and_again_when_there_is_room(platform, agent):
    async def signal(permille, incarnation="i1"):
        said = Signal(node="n1", incarnation=incarnation, disk_permille=permille)
        subject = subjects.agent_up("n1", "signal")
        await agent.bus.publish(subject, msgspec.json.encode(said))
        await agent.ask("pull", {})

    for permille in (899, 900, 950, 880):
        await signal(permille)
        await until(lambda: not platform.host.pending)
    await signal(10, incarnation="i0")
    await signal(879)
    await until(lambda: len(platform.events(NodeFilled)) == 2)
    found = [(said.used_permille, said.too_full) for said in platform.events(NodeFilled)]
    assert found == [(900, True), (879, False)]


async def test_what_runs_on_a_restarted_machine_is_gone(platform, agent, monkeypatch):
    monkeypatch.setattr(claims, "QUIET_S", 0.0)  # it takes longer to start a machine
    await platform.submit("a", Launch(command=("x",)))
    await agent.granted()
    again = Agent(platform, boot="b2", incarnation="i2")
    document = await again.start()
    assert document.incarnation == "i2"
    await until(lambda: again.desired.assignments and again.desired.assignments[0].attempt == 2)
    assert again.launch(again.desired.assignments[0]).command == ("x",)
    await again.bus.close()


async def test_who_runs_for_too_long_on_a_node_that_does_not_end_it_is_stopped(
    platform, agent, monkeypatch
):
    monkeypatch.setattr(durations, "SLACK_S", 0.05)
    await platform.submit("a", Launch(command=("x",)), max_duration_us=1_000)
    await agent.send(agent.report("started", await agent.granted()))
    await until(lambda: agent.desired.assignments[0].stop)
    assert platform.events(GangEvicted)[0].act.rule == "max-duration"
    (overran,) = platform.events(AttemptOverran)
    assert overran.ran_us >= 51_000


async def test_a_clock_of_the_database_that_jumps_a_year_ends_nothing(platform, agent):
    await platform.submit("a", Launch(command=("x",)), max_duration_us=60_000_000)
    mine = await agent.granted()
    await agent.send(agent.report("started", mine))
    await until(lambda: platform.events(JobStarted))
    platform.ahead_us = 365 * 86_400 * 1_000_000
    await platform.submit("b", Launch(command=("x",)))
    await until(lambda: len(agent.desired.assignments) == 2)
    await platform.stop()
    await platform.start()
    await until(lambda: agent.desired.epoch == 2)
    assert not any(assignment.stop for assignment in agent.desired.assignments)
    assert platform.events(GangEvicted) == []
    await agent.send(agent.report("exited", mine, reason="exited"))
    await until(lambda: platform.events(JobFinished))


@pytest.mark.parametrize("what", ["hello", "report", "pull", "signal", "nonsense"])
async def test_garbage_from_an_agent_changes_nothing(platform, agent, what):
    head = len(platform.log.events)
    for body in (b"", b"\xff\x00", b"[]", b'{"node": 3}', b"{" * 1000):
        await agent.bus.publish(subjects.agent_up("n1", what), body)
    other = Hello(node=msgspec.structs.replace(agent.said, node="n2"))
    await agent.bus.publish(subjects.agent_up("n1", "hello"), msgspec.json.encode(other))
    assert (await agent.ask("pull", {})).node == "n1"
    joined = [e.node for e in platform.events(NodeJoined)]
    assert joined == ["n1"]
    assert len(platform.log.events) == head


async def test_why_is_answered_from_the_state(platform, agent):
    await platform.submit("a", Launch(command=("x",)))
    await agent.granted()
    answer = await platform.bus.request(subjects.WHY, b"a", timeout_s=WAIT_S)
    assert msgspec.json.decode(answer.data)["text"] == "starts on n1"
    answer = await platform.bus.request(subjects.WHY, b"nobody", timeout_s=WAIT_S)
    assert msgspec.json.decode(answer.data) is None


async def test_a_gang_grows_onto_a_node_that_joins_and_those_there_are_told_nothing_new(
    platform, agent
):
    gang = Gang(nodes=1, nodes_max=2, accelerators=(Accelerator(milli=2000),))
    await platform.submit("e", Launch(command=("train",)), gang=gang)
    first = await agent.granted()
    env = agent.launch(first).env
    assert (env["HEADRACE_NUM_NODES_MIN"], env["HEADRACE_NUM_NODES_MAX"]) == ("1", "2")
    assert env["HEADRACE_NODE_NAMES"] == "n1"
    await agent.send(agent.report("started", first))
    other = Agent(platform, "n2")
    await other.start()
    second = await other.granted()
    assert (second.job, second.attempt, second.rank) == ("e", 1, 1)
    assert second.position == platform.position_of(GangGrown)
    assert other.launch(second).env["HEADRACE_GANG_KEY"] == env["HEADRACE_GANG_KEY"]
    assert other.launch(second).env["MASTER_ADDR"] == env["MASTER_ADDR"]
    await other.send(other.report("started", second))
    await other.send(other.report("exited", second, reason="lost"))
    await until(lambda: not other.desired.assignments or other.desired.assignments[0].rank == 2)
    assert [(a.rank, a.stop) for a in agent.desired.assignments] == [(0, False)]
    assert not platform.events(GangEvicted)
    await other.bus.close()
