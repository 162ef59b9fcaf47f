"""What of a workspace's use is put on record, and when."""

import asyncio

import msgspec
import pytest

from headrace.bus import subjects
from headrace.bus.agents import Progress, Reported, Signal
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.bus.uses import Uses
from headrace.events import Entry, Header
from headrace.events.asked import Gang
from headrace.events.gangs import Act, GangPlaced, GangReleased, Share, Worker
from headrace.events.jobs import JobAdmitted, JobFinished
from headrace.events.nodes import Device, NodeJoined
from headrace.events.workspaces import stage_of
from headrace.metrics.decide import DECIDER
from headrace.metrics.signals import Signals
from headrace.metrics.watch_rules import UNHEARD_US_MAX

SECOND_US = 1_000_000
IDLE_US = 100 * SECOND_US
JOB = {"job": "notebook-1", "project": "vision"}


class Watched:
    """Metrics' shell over a log and a bus in memory, and a clock that is turned by hand."""

    leading = holds_lease = True

    def __init__(self):
        self.bus = MemoryBus(MemoryBroker(), "metrics")
        self.state, self.position, self.clock_us = DECIDER.initial(), 0, 1_000 * SECOND_US
        self.recorded = []
        self.shell = Signals()

    def now_us(self):
        return self.clock_us

    async def record(self, fact):
        self.recorded.append(fact)
        self.given(fact)

    def given(self, *events):
        for event in events:
            self.position += 1
            entry = Entry(position=self.position, recorded_at_us=1, header=Header(), event=event)
            DECIDER.evolve(self.state, entry)

    async def passes(self, seconds, *, busy=0, gateway=True, sampled=True):
        """Time goes by, in which agents and the gateway say what they say every two seconds."""
        for _ in range(0, seconds, 2):
            self.clock_us += 2 * SECOND_US
            if gateway:
                await self.say(subjects.USES, Uses())
            if sampled:
                await self.say(subjects.agent_up("n1", "signal"), sample(busy))
            await self.shell.watching.look()

    async def say(self, subject, message):
        await self.bus.publish(subject, msgspec.json.encode(message))
        await asyncio.sleep(0)

    def unused_s(self):
        return [seen.unused_us // SECOND_US for seen in self.recorded]


def sample(busy):
    return Signal(node="n1", incarnation="i", samples=(("GPU-1", busy, 0), ("GPU-2", 900, 0)))


def runs(attempt=1):
    worker = Worker(
        rank=0, node="n1", address="192.0.2.1", devices=(Share(device="GPU-1", milli=1000),)
    )
    return GangPlaced(
        **JOB, attempt=attempt, workers=(worker,), requested_at=1, milli=1000, act=Act(rule="fits")
    )


@pytest.fixture
async def watched():
    found = Watched()
    admitted = JobAdmitted(
        **JOB, name="notebook", user="ada", gang=Gang(), requested_at=1, priority=40,
        idle_us=IDLE_US,
    )  # fmt: skip
    found.given(admitted, runs())
    await found.shell.lead(found)
    await found.say(subjects.USES, Uses())
    await found.shell.watching.look()
    yield found
    await found.shell.close()


async def test_nothing_is_recorded_until_a_warning_is_due_and_then_its_end(watched):
    await watched.passes(78, busy=9)
    assert watched.recorded == []
    await watched.passes(40)
    assert watched.unused_s() == [80, 100]
    assert watched.recorded[1].busy_permille == 9


async def test_somebody_at_it_a_busy_gpu_or_a_report_begin_the_time_anew(watched):
    await watched.passes(70)
    await watched.say(subjects.USES, Uses(jobs=("notebook-1", "another-1")))
    await watched.passes(70)
    await watched.passes(2, busy=10)
    await watched.passes(70)
    said = Reported(job="notebook-1", attempt=1, rank=0, project="vision", values={"step": "1"})
    for _ in range(2):  # the same again is no use
        await watched.say(
            subjects.PROGRESS.replace("*", "n1"), Progress(node="n1", workers=(said,))
        )
        await watched.passes(70)
    assert watched.unused_s() == [80, 100]


async def test_use_after_the_warning_is_recorded_once(watched):
    await watched.passes(90)
    await watched.say(subjects.USES, Uses(jobs=("notebook-1",)))
    await watched.passes(60)
    warned, used = watched.recorded
    assert (stage_of(warned.unused_us, IDLE_US), stage_of(used.unused_us, IDLE_US)) == (1, 0)


@pytest.mark.parametrize("missing", ["gateway", "sampled"])
async def test_what_was_not_watched_counts_as_use(watched, missing):
    await watched.passes(60)
    await watched.passes(UNHEARD_US_MAX // SECOND_US + 4, **{missing: False})
    await watched.passes(70)
    assert watched.recorded == []


async def test_a_gpu_that_does_not_say_how_busy_it_is_counts_as_use(watched):
    """As MIG slices do: their driver has no figure for them."""
    await watched.passes(200, busy=None)
    assert watched.recorded == []


async def test_another_attempt_begins_anew_and_what_has_ended_is_not_watched(watched):
    await watched.passes(90)
    released = GangReleased(**JOB, attempt=1, shares=(), milli=1000, held_us=1, again=True)
    watched.given(released)
    await watched.passes(60)
    watched.given(runs(attempt=2))
    await watched.passes(60)
    assert watched.unused_s() == [80]
    watched.given(JobFinished(**JOB, outcome="cancelled"))
    await watched.passes(200)
    assert watched.state.workspaces == {}
    assert watched.unused_s() == [80]


async def test_another_node_says_nothing_of_a_workspaces_gpu_or_of_its_programs(watched):
    await watched.passes(70)
    said = Reported(job="notebook-1", attempt=1, rank=0, project="vision", values={"step": "1"})
    await watched.say(subjects.PROGRESS.replace("*", "n2"), Progress(node="n1", workers=(said,)))
    await watched.say(subjects.agent_up("n2", "signal"), sample(900))
    await watched.passes(40)
    assert watched.unused_s() == [80, 100]
    assert list(watched.shell.progress.all()) == []


async def test_a_node_has_samples_of_its_own_devices_alone(watched):
    device = Device(device="GPU-1", index=0, model="H100-80GB", memory_bytes=1)
    watched.given(
        NodeJoined(
            node="n1", host="n1", address="192.0.2.1", boot="b", incarnation="i", public_key="k",
            devices=(device,), cpu_milli=1, memory_bytes=1,
        )
    )  # fmt: skip
    await watched.say(subjects.agent_up("n1", "signal"), sample(5))
    await watched.say(subjects.agent_up("n2", "signal"), sample(5))
    async with asyncio.timeout(60):
        while not watched.shell.busy_permille:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert watched.shell.busy_permille == {("n1", "GPU-1"): 5}
    await watched.say(subjects.agent_up("n1", "signal"), sample(None))
    async with asyncio.timeout(60):
        while watched.shell.busy_permille:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
