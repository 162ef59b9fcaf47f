"""Jobs that leave their GPUs and come back: which way, on what proof, and what is booked meanwhile."""

import pytest
from tests.placement.conftest import GB, SECOND_US
from tests.placement.pausing import (
    CAN,
    SAVES,
    away,
    booked,
    fleet,
    pause,
    report,
    resume,
    runs,
    tags,
)

from headrace.events import tag_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobEligible
from headrace.events.nodes import Device
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
    JobResuming,
)
from headrace.placement.decide import decide, wakeup
from headrace.placement.desired import _grace_s
from headrace.placement.explain_rules import explain

SLICES = tuple(
    Device(
        device=f"MIG-{i}", index=i, model="H100-80GB", memory_bytes=10 * GB, profile="1g.10gb",
        parent="GPU-0",
    )
    for i in range(2)
)  # fmt: skip
SLICE = Gang(accelerators=(Accelerator(milli=1000, profile="1g.10gb"),), cpu_milli=1000)


def elastic(nodes, most):
    return Gang(nodes=nodes, nodes_max=most, accelerators=(Accelerator(milli=1000),))


def per_gpu(gpus):
    return Gang(accelerators=(Accelerator(milli=gpus * 1000),), per_gpu_processes=True)


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


def test_a_gang_whose_nodes_are_taken_is_told_to_wait_for_them_and_not_that_there_are_none():
    history = fleet(nodes=2, pausing=("checkpoint", "migrate"))
    runs(history, "a", nodes=2, gpus=2000)
    away(history, "a")
    runs(history, "b", gpus=2000)
    resume(history, "a")
    found = explain(history.state, "a", history.now_us)
    assert (found.rule, found.names["nodes"]) == ("bound", "n1, n2")
    assert found.text == "waits for free GPUs on n1, n2: what it did is kept there"


def test_who_cannot_go_back_keeps_nobody_from_what_is_free():
    history = fleet()
    runs(history, "a", gpus=1000)
    away(history, "a")
    runs(history, "b", gpus=1000)
    resume(history, "a")

    history.job("c", gpus=1000)

    assert tags(history.settled()) == ["gang.placed"]


def test_who_waits_for_gpus_of_its_node_has_nobody_look_again_before_something_changes():
    history = fleet(pausing=("checkpoint", "migrate"))
    runs(history, "a", gpus=2000)
    away(history, "a")
    runs(history, "b", gpus=2000)
    history.now_us += 30 * SECOND_US  # later than what time alone may bring for a job that waits
    assert resume(history, "a") == []

    history.now_us += SECOND_US
    assert decide(history.state, history.now_us) == []
    assert wakeup(history.state) > history.now_us


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


@pytest.mark.parametrize(
    ("fields", "pausing", "why"),
    [
        ({"gpus": 0, "gang": Gang(cpu_milli=1000)}, CAN, "it has no GPU"),
        ({"gang": elastic(1, 2)}, CAN, "its workers come and go"),
        ({"gang": per_gpu(2)}, CAN, "n1 has no driver that can where processes share GPU memory"),
        ({"gang": per_gpu(2)}, (*CAN, "ipc"), ""),
        ({"gang": per_gpu(1)}, CAN, ""),
    ],
)
def test_what_cannot_leave_with_its_processes_says_why_and_takes_the_next_rung(
    fields, pausing, why
):
    history = fleet(pausing=pausing)
    runs(history, "a", checkpoint=SAVES, **fields)

    (asked,) = pause(history, "a")

    assert tag_of(asked) == ("gang.evicted.v1" if why else "gang.pausing.v1")
    assert asked.act.names.get("no_checkpoint", "") == why
    if why:
        assert asked.way == "signal"


def test_a_slice_of_a_gpu_is_left_but_goes_to_no_other_slice():
    history = fleet(pausing=("checkpoint", "migrate"), devices=SLICES)
    runs(history, "a", gang=SLICE)
    away(history, "a")
    (mine,) = history.placed("a").workers[0].devices
    for job in "bc":
        runs(history, job, gang=SLICE)
    on_mine = next(job for job in "bc" if history.placed(job).workers[0].devices == (mine,))

    history.exits("c" if on_mine == "b" else "b")
    assert "gang.resumed" not in tags(resume(history, "a"))
    history.exits(on_mine)
    assert "gang.resumed" in tags(history.settled())


def test_a_job_that_waits_is_paused_at_once_and_is_not_placed():
    history = fleet()
    runs(history, "a", gpus=2000)
    history.job("b", gpus=2000)

    assert [(e.job, e.way) for e in pause(history, "b")] == [("b", "waiting")]
    history.exits("a")

    assert tags(history.settled()) == ["gang.released", "job.finished"]
    assert tags(resume(history, "b")) == ["gang.placed"]


def test_who_was_let_in_just_before_it_was_paused_is_not_placed_before_quota_lets_it_in_again():
    history = fleet()
    runs(history, "a", gpus=2000)
    history.job("b", gpus=2000, eligible=False)
    pause(history, "b")
    history.given(JobEligible(job="b", project="default"))  # decided before it was paused
    history.exits("a")
    history.given(JobResuming(job="b", project="default"))

    assert tags(history.settled()) == ["gang.released", "job.finished"]
    history.given(JobEligible(job="b", project="default"))
    assert tags(history.settled()) == ["gang.placed"]


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
