"""Jobs that leave their GPUs and come back: which way, on what proof, and what is booked meanwhile."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.conftest import GB, SECOND_US, History

from headrace.events import tag_of
from headrace.events.guards import guards_of
from headrace.events.jobs import Checkpoint, Gang, JobEligible
from headrace.events.nodes import NodeSilent
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
    GangPausing,
    JobPausing,
    JobResuming,
)
from headrace.placement.desired import _grace_s
from headrace.placement.explain_rules import explain

CAN = ("checkpoint",)
SAVES = Checkpoint(signal="USR1", grace_us=30_000_000)


def tags(events):
    return [tag_of(event).removesuffix(".v1") for event in events]


def fleet(*, nodes=1, gpus=2, pausing=CAN, **changes):
    history = History()
    for number in range(nodes):
        history.node(f"n{number + 1}", gpus=gpus, pausing=pausing, **changes)
    history.queue("default")
    return history


def runs(history, name, **fields):
    history.job(name, **fields)
    history.settled()
    history.starts(name)
    history.settled()


def pause(history, name):
    history.given(JobPausing(job=name, project="default", user="ada"))
    return history.settled()


def resume(history, name):
    history.given(JobResuming(job=name, project="default", user="ada"))
    history.given(JobEligible(job=name, project="default"))
    return history.settled()


def report(history, kind, name, ranks=None, **fields):
    asked_at = history.state.jobs[name].run.pause.position
    history._report(
        kind, name, ranks, history.state.jobs[name].run.attempt, asked_at=asked_at, **fields
    )
    return history.settled()


def away(history, name):
    """Take a running job off its devices."""
    pause(history, name)
    report(history, AttemptLocked, name)
    return report(history, AttemptPaused, name)


def booked(history):
    """What the log's own counters say of each device, and what nodes say."""
    totals = {}
    for entry in history.entries:
        for guard in guards_of(entry.event):
            totals[guard.key] = totals.get(guard.key, 0) + guard.delta
    nodes = {
        f"gpu/{d.device}": d.used_milli for n in history.state.nodes.values() for d in n.devices
    }
    assert {key: milli for key, milli in totals.items() if milli} == {
        key: milli for key, milli in nodes.items() if milli
    }
    return sum(totals.values())


def test_a_pause_locks_then_moves_then_frees_the_gpus_for_others():
    history = fleet()
    runs(history, "a", gpus=2000)
    history.job("b", gpus=2000)
    assert history.settled() == []

    asked = pause(history, "a")
    moved = report(history, AttemptLocked, "a", gpu_bytes=40 * GB)
    assert booked(history) == 2000
    left = report(history, AttemptPaused, "a")

    assert [(e.phase, e.reason) for e in asked] == [("locked", "paused")]
    assert [(e.phase, e.image_bytes) for e in moved] == [("paused", (40 * GB,))]
    assert tags(left) == ["gang.paused", "job.paused", "gang.placed"]
    assert (left[1].way, left[1].lost) == ("cuda-checkpoint", "")
    assert left[2].job == "b"
    assert booked(history) == 2000
    assert history.state.usage["default"].milli == 2000
    assert history.state.nodes["n1"].memory_used_bytes == 40 * GB
    assert explain(history.state, "a", history.now_us).rule == "paused"


def test_it_comes_back_to_its_own_gpus_when_it_is_its_turn_and_not_before():
    history = fleet()
    runs(history, "a", gpus=2000)
    mine = history.placed("a").workers
    history.job("b", gpus=1000)
    away(history, "a")

    assert resume(history, "a") == []
    assert explain(history.state, "a", history.now_us).rule == "bound"
    history.starts("b")
    history.exits("b")
    resumed = history.settled()[-1]

    assert (tag_of(resumed), resumed.workers, resumed.attempt) == ("gang.resumed.v1", mine, 1)
    assert report(history, AttemptResumed, "a") == []
    assert history.state.jobs["a"].run.pause is None
    assert history.state.nodes["n1"].memory_used_bytes == 0
    history.exits("a")
    assert tags(history.settled()) == ["gang.released", "job.finished"]
    assert booked(history) == 0


@pytest.mark.parametrize("can", [CAN, ("checkpoint", "migrate")])
def test_it_goes_to_other_gpus_of_its_node_only_where_the_driver_was_found_to(can):
    history = fleet(pausing=can)
    runs(history, "a", gpus=1000)
    away(history, "a")
    first = history.placed("a").workers[0].devices[0].device
    runs(history, "b", gpus=1000)
    assert history.placed("b").workers[0].devices[0].device == first

    found = resume(history, "a")

    assert bool(found) == ("migrate" in can)
    if found:
        assert found[0].workers[0].devices[0].device != first


def test_who_cannot_go_back_keeps_nobody_from_what_is_free():
    history = fleet()
    runs(history, "a", gpus=1000)
    away(history, "a")
    runs(history, "b", gpus=1000)
    resume(history, "a")

    history.job("c", gpus=1000)

    assert tags(history.settled()) == ["gang.placed"]


def test_who_waits_too_long_for_its_node_starts_anew_and_says_what_is_lost():
    history = fleet(nodes=2)
    runs(history, "a", gpus=2000)
    away(history, "a")
    runs(history, "b", gpus=2000)
    runs(history, "c", gpus=2000)
    assert {history.placed(j).workers[0].node for j in "bc"} == {"n1", "n2"}
    resume(history, "a")
    history.now_us += 601 * SECOND_US
    (dropped,) = history.settled()

    assert (dropped.reason, dropped.act.names["lost"]) == (
        "image-dropped",
        "all that attempt 1 did",
    )
    run = history.state.jobs["a"].run
    assert _grace_s(history.state.jobs["a"], run, 10) == 0  # it has no GPU to save itself from
    history.exits("a", reason="stopped", exit_code=137)
    released = history.settled()[0]
    assert (released.again, released.shares) == (True, ())
    assert history.state.nodes["n1"].memory_used_bytes == 0
    assert history.state.jobs["a"].waiting


@pytest.mark.parametrize(
    ("pausing", "checkpoint", "way"), [((), None, "stop"), ((), SAVES, "signal")]
)
def test_without_such_a_driver_it_is_asked_to_save_itself_or_stopped(pausing, checkpoint, way):
    history = fleet(pausing=pausing)
    runs(history, "a", checkpoint=checkpoint)

    (evicted,) = pause(history, "a")
    job = history.state.jobs["a"]
    assert (evicted.reason, evicted.way) == ("paused", way)
    assert evicted.act.names["no_checkpoint"] == "n1 has no driver that can"
    assert _grace_s(job, job.run, 10) == (30 if checkpoint else 10)
    history.now_us += 5 * SECOND_US
    history.exits("a", reason="stopped", exit_code=143)
    released, said = history.settled()

    assert released.again
    assert (said.way, bool(said.lost), bool(said.lost_us)) == (way, True, way == "stop")
    assert not history.state.jobs["a"].waiting
    assert tags(resume(history, "a")) == ["gang.placed"]
    assert history.placed("a").attempt == 2


def test_a_job_that_waits_is_paused_at_once_and_is_not_placed():
    history = fleet()
    runs(history, "a", gpus=2000)
    history.job("b", gpus=2000)

    assert [(e.job, e.way) for e in pause(history, "b")] == [("b", "waiting")]
    history.exits("a")

    assert tags(history.settled()) == ["gang.released", "job.finished"]
    assert tags(resume(history, "b")) == ["gang.placed"]


def test_all_of_a_gang_leave_or_none():
    history = fleet(nodes=2)
    runs(history, "a", gpus=2000, nodes=2)
    pause(history, "a")

    assert report(history, AttemptLocked, "a", ranks=[0]) == []
    (moving,) = report(history, AttemptLocked, "a", ranks=[1])
    assert (moving.phase, len(moving.image_bytes)) == ("paused", 2)
    assert report(history, AttemptPaused, "a", ranks=[0]) == []
    assert booked(history) == 4000
    (evicted,) = report(history, AttemptPauseFailed, "a", ranks=[1], message="ipc memory")

    assert (evicted.reason, evicted.act.rule) == ("paused", "one-rung-down")
    assert evicted.act.names["failed"] == "ipc memory"
    history.exits("a", reason="stopped", exit_code=143)
    assert tags(history.settled()) == ["gang.released", "job.paused"]
    assert booked(history) == 0
    assert [n.memory_used_bytes for n in history.state.nodes.values()] == [0, 0]


def test_an_image_that_the_node_has_no_memory_for_is_not_made():
    history = fleet(memory_bytes=30 * GB)
    runs(history, "a", gpus=1000)
    pause(history, "a")

    (evicted,) = report(history, AttemptLocked, "a", gpu_bytes=40 * GB)

    assert "bytes of memory free" in evicted.act.names["failed"]


def test_the_memory_of_an_image_is_not_given_to_others():
    history = fleet(memory_bytes=100 * GB)
    runs(history, "a", gpus=2000)
    pause(history, "a")
    report(history, AttemptLocked, "a", gpu_bytes=60 * GB)
    report(history, AttemptPaused, "a")
    history.job("b", gang=Gang(cpu_milli=1000, memory_bytes=50 * GB))
    assert history.settled() == []
    history.job("c", gang=Gang(cpu_milli=1000, memory_bytes=40 * GB))
    assert tags(history.settled()) == ["gang.placed"]


def test_a_worker_that_never_answers_takes_the_gang_one_rung_down():
    history = fleet()
    runs(history, "a")
    pause(history, "a")
    history.now_us += 61 * SECOND_US

    (evicted,) = history.settled()

    assert evicted.act.names["failed"] == "not within 60 s"


def test_one_that_breaks_on_its_way_back_starts_anew():
    history = fleet()
    runs(history, "a")
    away(history, "a")
    resume(history, "a")

    (evicted,) = report(history, AttemptPauseFailed, "a", message="restore 7: no", broken=True)

    assert (evicted.reason, evicted.act.names["lost"]) == ("pause-broken", "all that attempt 1 did")
    history.exits("a", reason="stopped", exit_code=137)
    assert tags(history.settled()) == ["gang.released", "gang.placed"]
    assert history.state.jobs["a"].lost == 0


def test_a_node_that_is_silent_is_not_asked():
    history = fleet()
    runs(history, "a")
    history.given(NodeSilent(node="n1", silent_us=10 * SECOND_US))

    (evicted,) = pause(history, "a")

    assert evicted.act.names["no_checkpoint"] == "n1 is silent"


def test_time_in_pause_does_not_count_against_the_maximum():
    history = fleet()
    runs(history, "a", max_duration_us=100 * SECOND_US)
    history.now_us += 50 * SECOND_US
    away(history, "a")
    history.now_us += 500 * SECOND_US
    assert history.settled() == []
    resume(history, "a")
    report(history, AttemptResumed, "a")
    history.now_us += 40 * SECOND_US
    assert history.settled() == []
    history.cut()
    history.now_us += 20 * SECOND_US

    (evicted,) = history.settled()

    assert evicted.reason == "timeout"
    assert evicted.act.numbers["ran_us"] < 111 * SECOND_US


def test_who_is_preempted_leaves_with_all_it_did_and_comes_back():
    history = fleet()
    runs(history, "low", gpus=2000, priority=10)
    history.job("high", gpus=2000, priority=70)

    (asked,) = history.settled()
    assert isinstance(asked, GangPausing)
    assert (asked.reason, asked.gainer) == ("preempted", "high")
    report(history, AttemptLocked, "low")
    left = report(history, AttemptPaused, "low")

    assert tags(left) == ["gang.paused", "gang.placed"]
    history.starts("high")
    history.exits("high")
    assert tags(history.settled())[-1] == "gang.resumed"


def test_a_preempted_job_that_cannot_leave_is_stopped_for_the_same():
    history = fleet()
    runs(history, "low", gpus=2000, priority=10, checkpoint=SAVES)
    history.job("high", gpus=2000, priority=70)
    history.settled()

    (evicted,) = report(history, AttemptPauseFailed, "low", message="no")

    assert (evicted.reason, evicted.gainer, evicted.way) == ("preempted", "high", "signal")
    history.exits("low", reason="stopped", exit_code=138)
    assert tags(history.settled()) == ["gang.released", "gang.placed"]


def test_a_paused_job_can_be_cancelled_and_gives_back_only_what_it_has():
    history = fleet()
    runs(history, "a")
    away(history, "a")
    history.cancel("a")
    (evicted,) = history.settled()
    assert evicted.reason == "cancelled"
    history.exits("a", reason="stopped", exit_code=137)

    assert tags(history.settled()) == ["gang.released", "job.finished"]
    assert booked(history) == 0
    assert history.state.nodes["n1"].memory_used_bytes == 0


def test_resumed_before_it_was_paused_it_goes_on_when_it_has_left():
    history = fleet()
    runs(history, "a")
    pause(history, "a")
    history.given(JobResuming(job="a", project="default", user="ada"))
    report(history, AttemptLocked, "a")

    assert tags(report(history, AttemptPaused, "a")) == ["gang.paused", "gang.resumed"]


KINDS = (AttemptLocked, AttemptPaused, AttemptResumed, AttemptPauseFailed)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["pause", "resume", "exit", "cancel", "cut", "late"]),
            st.tuples(st.sampled_from(KINDS), st.integers(0, 1)),
        ),
        max_size=14,
    )
)
def test_whatever_is_said_in_whatever_order_nothing_is_booked_twice(steps):
    history = fleet(nodes=2, gpus=1)
    runs(history, "a", nodes=2)
    history.job("b", nodes=2)
    for step in steps:
        _take(history, step)
        history.settled()
        booked(history)
        assert all(
            0 <= d.used_milli <= 1000 for n in history.state.nodes.values() for d in n.devices
        )
        assert all(n.memory_used_bytes >= 0 for n in history.state.nodes.values())


def _take(history, step):
    job = history.state.jobs.get("a")
    if step == "pause":
        history.given(JobPausing(job="a", project="default"))
    elif step == "resume":
        history.given(JobResuming(job="a", project="default"))
        history.given(JobEligible(job="a", project="default"))
    elif step == "exit" and job is not None and job.run is not None:
        history.exits("a", reason="stopped", exit_code=1)
    elif step == "cancel":
        history.cancel("a")
    elif step == "cut":
        history.cut()
    elif step == "late":
        history.now_us += 700 * SECOND_US
    elif isinstance(step, tuple) and job is not None and job.run is not None and job.run.pause:
        kind, rank = step
        more = {"message": "no"} if kind is AttemptPauseFailed else {}
        report(history, kind, "a", ranks=[rank], **more)
