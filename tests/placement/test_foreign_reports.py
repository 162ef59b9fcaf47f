"""A node is believed about what the log placed on it and what it alone has, and about nothing else."""

import msgspec
import pytest

from headrace.bus import subjects
from headrace.bus.agents import Hello, Launch, Report, Reports
from headrace.events.attempts import AttemptExited, AttemptStarted
from headrace.events.jobs import JobFinished
from headrace.events.nodes import (
    DeviceContested,
    DeviceFaulted,
    NodeChangeRequested,
    NodeJoined,
    NodeReportRefused,
)
from headrace.events.pauses import AttemptPaused
from headrace.events.queues import Queue, QueueConfigured
from headrace.runtime import host

from .agents import Agent, Platform, until


@pytest.fixture
async def platform(monkeypatch):
    monkeypatch.setattr(host, "LEASE_S", 60.0)
    platform = Platform({"silence_s": 600})
    await platform.start()
    queue = Queue(queue="vision", kind="project")
    await platform.append(QueueConfigured(name="vision", queue=queue, change="created"))
    yield platform
    await platform.stop()
    await platform.bus.close()


@pytest.fixture
async def placed(platform):
    """The node that has the job, its assignment, and another node."""
    first = Agent(platform, "n1")
    await first.start()
    await platform.submit("a", Launch(command=("true",)))
    assignment = await first.granted()
    second = Agent(platform, "n2")
    await second.start()
    yield first, assignment, second
    await first.bus.close()
    await second.bus.close()


@pytest.mark.parametrize("what", ["started", "exited", "paused", "locked", "resumed"])
async def test_a_report_about_a_job_of_another_node_changes_nothing(platform, placed, what):
    first, assignment, second = placed
    document = await second.send(second.report(what, assignment, reason="exited", outputs="f" * 64))
    assert document.recorded_through == 1, "it need not be repeated"
    await until(lambda: platform.events(NodeReportRefused))
    refused = platform.events(NodeReportRefused)[0]
    assert (refused.node, refused.what, refused.job) == ("n2", what, "a")
    assert refused.reason == "this worker is not placed on the node"
    assert not platform.events(AttemptStarted) + platform.events(AttemptExited)
    assert not platform.events(AttemptPaused)
    await first.send(first.report("started", assignment), first.report("exited", assignment))
    await until(lambda: platform.events(JobFinished))
    assert [event.node for event in platform.events(AttemptExited)] == ["n1"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"attempt": 2}, "the live attempt is 1"),
        ({"rank": 1}, "this worker is not placed on the node"),
        ({"job": "nobodys"}, "no attempt of the job runs"),
        ({"project": "ads"}, "the job is of another project"),
        ({"what": "faulted", "device": "n2-0"}, "the node has no such device"),
        ({"what": "boasted"}, "cannot be read"),
    ],
)
async def test_what_the_log_did_not_place_there_is_refused(platform, placed, changes, reason):
    first, assignment, _ = placed
    report = first.report("exited", assignment)
    document = await first.send(msgspec.structs.replace(report, **changes))
    assert document.recorded_through == 1
    await until(lambda: platform.events(NodeReportRefused))
    assert platform.events(NodeReportRefused)[0].reason == reason
    assert not platform.events(AttemptExited) + platform.events(DeviceFaulted)


async def test_refusals_are_on_record_once_a_minute_and_true_reports_among_them_stand(
    platform, placed
):
    first, assignment, _ = placed
    stranger = msgspec.structs.replace(assignment, job="nobodys")
    reports = [first.report("exited", stranger) for _ in range(50)]
    reports += [first.report("started", assignment), first.report("exited", stranger)]
    document = await first.send(*reports)
    while document.recorded_through < 52:
        document = await first.ask("pull", {})
    assert len(platform.events(AttemptStarted)) == 1
    assert len(platform.events(NodeReportRefused)) == 1


async def test_a_refused_report_is_not_acknowledged_before_a_true_one_ahead_of_it_is_in_the_log(
    platform, placed
):
    first, assignment, _ = placed
    stranger = msgspec.structs.replace(assignment, job="nobodys")
    late = first.report("started", assignment)
    after = first.report("exited", stranger)
    document = await first.send(after)
    assert document.recorded_through == 0, "the one before it is missing"
    document = await first.send(late, after)
    assert document.recorded_through == 2


async def test_a_device_of_another_node_is_not_booked_here_until_that_node_is_gone(
    platform, placed
):
    _, _, second = placed
    thief = Agent(platform, "n3")
    stolen = second.said.devices[0].device
    thief.said = msgspec.structs.replace(thief.said, devices=second.said.devices[:1])
    document = await thief.ask("hello", Hello(node=thief.said))
    assert document.dismissed.startswith(f"device {stolen} is one of node n2: if it was moved")
    await thief.ask("hello", Hello(node=thief.said))
    await until(lambda: platform.events(DeviceContested))
    (contested,) = platform.events(DeviceContested)
    assert (contested.node, contested.device, contested.holder) == ("n3", stolen, "n2")
    assert {event.node for event in platform.events(NodeJoined)} == {"n1", "n2"}
    await platform.append(NodeChangeRequested(node="n2", change="delete", user="admin"))
    await until(lambda: "n2" not in platform.host.state.machines)
    document = await thief.ask("hello", Hello(node=thief.said))
    assert not document.dismissed
    await thief.bus.close()


async def test_of_two_nodes_that_say_at_once_that_they_have_a_device_one_has_it(platform, placed):
    _, _, second = placed
    device = msgspec.structs.replace(second.said.devices[0], device="new")
    rivals = [Agent(platform, name) for name in ("n3", "n4")]
    for rival in rivals:
        rival.said = msgspec.structs.replace(rival.said, devices=(device,))
        hello = msgspec.json.encode(Hello(node=rival.said))
        await platform.bus.publish(subjects.agent_up(rival.said.node, "hello"), hello)
    await until(lambda: platform.events(DeviceContested))
    await until(lambda: "n3" in platform.host.state.machines)
    assert "n4" not in platform.host.state.machines
    for rival in rivals:
        await rival.bus.close()


async def test_reports_in_the_name_of_another_node_are_not_taken(platform, placed):
    first, _, second = placed
    forged = Reports(
        node="n1", boot=first.said.boot, incarnation=first.said.incarnation,
        reports=(Report(sequence=1, what="exited", job="a", attempt=1, rank=0, project="vision", at_us=1),),
    )  # fmt: skip
    await second.bus.publish(subjects.agent_up("n2", "report"), msgspec.json.encode(forged))
    await second.ask("pull", {})
    assert not platform.events(AttemptExited)
