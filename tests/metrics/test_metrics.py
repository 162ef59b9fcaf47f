"""What was used is accounted for once, and the page for Prometheus says what the log says."""

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.bus.agents import Reported
from headrace.events import Entry, Header
from headrace.events.asked import Gang
from headrace.events.gangs import Act, GangPlaced, GangReleased
from headrace.events.jobs import JobAdmitted, JobFinished, JobStarted
from headrace.events.nodes import Device, NodeChanged, NodeHeard, NodeJoined, NodeSilent
from headrace.events.platform import UsageAccounted
from headrace.metrics.decide import DECIDER
from headrace.metrics.exposition import text


class History:
    """A log in memory in front of metrics' decider."""

    def __init__(self):
        self.state = DECIDER.initial()
        self.position = 0

    def given(self, *events, causation=0):
        for event in events:
            self.position += 1
            header = Header(causation=causation)
            DECIDER.evolve(
                self.state,
                Entry(position=self.position, recorded_at_us=1, header=header, event=event),
            )

    def decided(self):
        drafts = DECIDER.decide(self.state, 1)
        for draft in drafts:
            self.given(draft.event, causation=draft.causation)
        return [draft.event for draft in drafts]


def ran(job, milli=2000, held_us=1_500_000, waited_us=20_000):
    common = {"job": job, "project": "vision", "attempt": 1}
    return (
        JobAdmitted(
            job=job, project="vision", name=job, user="ada", gang=Gang(), requested_at=1,
            priority=40,
        ),
        GangPlaced(**common, workers=(), requested_at=1, milli=milli, act=Act(rule="fits")),
        JobStarted(**common, waited_us=waited_us),
        GangReleased(**common, shares=(), milli=milli, held_us=held_us),
        JobFinished(**common, outcome="succeeded", waited_us=waited_us),
    )  # fmt: skip


def values(state, busy=None):
    samples = {}
    for family in text_string_to_metric_families(text(state, busy or {})):
        for sample in family.samples:
            samples[sample.name, *sorted(sample.labels.values())] = sample.value
    return samples


def test_every_released_attempt_is_accounted_for_once():
    history = History()
    history.given(*ran("a"), *ran("b", milli=500, held_us=1_000_000))
    assert history.decided() == [
        UsageAccounted(job="a", project="vision", attempt=1, milli=2000, held_us=1_500_000),
        UsageAccounted(job="b", project="vision", attempt=1, milli=500, held_us=1_000_000),
    ]
    assert history.decided() == []
    assert values(history.state)["headrace_usage_gpu_seconds_total", "vision"] == 3.5


def test_the_page_shows_jobs_by_state_and_the_fleet():
    history = History()
    device = Device(device="g0", index=0, model="H100", memory_bytes=1)
    history.given(
        NodeJoined(
            node="n1", host="n1", address="a", boot="b", incarnation="i", public_key="",
            devices=(device, msgspec.structs.replace(device, device="g1", healthy=False)),
        ),
        NodeSilent(node="n1"),
        *ran("a"),
        *ran("b")[:3],
    )  # fmt: skip
    history.given(NodeHeard(node="n1"))
    seen = values(history.state, {("n1", "g0"): 425})
    assert seen["headrace_jobs", "running", "vision"] == 1
    assert seen["headrace_jobs_finished_total", "succeeded", "vision"] == 1
    assert seen["headrace_gpu_milli_capacity",] == 1000
    assert seen["headrace_gpu_milli_allocated", "vision"] == 2000
    assert seen["headrace_node_heard", "n1"] == 1
    assert seen["headrace_device_busy_ratio", "g0", "n1"] == 0.425
    assert seen["headrace_wait_seconds_bucket", "0.01", "vision"] == 0
    assert seen["headrace_wait_seconds_bucket", "0.05", "vision"] == 1
    assert seen["headrace_wait_seconds_count", "vision"] == 1
    assert seen["headrace_wait_seconds_sum", "vision"] == 0.02


def joined(node):
    device = Device(device=f"{node}-g0", index=0, model="H100", memory_bytes=1)
    return NodeJoined(
        node=node, host=node, address="a", boot="b", incarnation="i", public_key="",
        devices=(device,),
    )  # fmt: skip


def test_gpus_in_use_are_those_held_now_however_long_the_job_runs():
    history = History()
    history.given(*ran("short"), *ran("day-long", milli=4000)[:3])
    assert values(history.state)["headrace_gpu_milli_allocated", "vision"] == 4000
    history.given(*ran("day-long", milli=4000)[3:])
    assert values(history.state)["headrace_gpu_milli_allocated", "vision"] == 0


@pytest.mark.parametrize("change", ["delete", "forget"])
def test_a_node_that_has_gone_leaves_the_page(change):
    history = History()
    history.given(joined("n1"), joined("n2"), NodeSilent(node="n2"))
    busy = {("n1", "n1-g0"): 5, ("n2", "n2-g0"): 5}
    seen = values(history.state, busy)
    assert (seen["headrace_gpu_milli_capacity",], seen["headrace_node_heard", "n2"]) == (2000, 0)
    assert ("headrace_device_busy_ratio", "n2", "n2-g0") not in seen
    history.given(NodeChanged(node="n2", change=change))
    seen = values(history.state, busy)
    assert seen["headrace_gpu_milli_capacity",] == 1000
    assert ("headrace_node_heard", "n2") not in seen
    history.given(NodeChanged(node="n1", change="drain"))
    assert values(history.state, busy)["headrace_device_busy_ratio", "n1", "n1-g0"] == 0.005


def test_the_page_has_what_running_workers_say_of_themselves():
    said = Reported(
        job="a", attempt=1, rank=0, project="vision", values={"step": "12", "loss": "nan"}
    )
    page = text(History().state, {}, [said])
    assert 'headrace_worker_reported{project="vision",job="a",rank="0",name="step"} 12' in page
    assert 'headrace_worker_reported{project="vision",job="a",rank="0",name="loss"} NaN' in page


def test_a_snapshot_loses_nothing():
    history = History()
    history.given(*ran("a"), *ran("b")[:2])
    data = msgspec.json.encode(history.state)
    again = msgspec.json.decode(data, type=DECIDER.state)
    assert msgspec.json.encode(again) == data
    assert DECIDER.decide(again, 1) == DECIDER.decide(history.state, 1)
