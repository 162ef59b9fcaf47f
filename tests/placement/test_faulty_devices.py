"""Devices at fault: nothing new goes there, what is there starts anew, and how they come back."""

import msgspec
import pytest

from headrace.events.gangs import GangPlaced
from headrace.events.nodes import Device, DeviceFaulted, NodeChanged, NodeChangeRequested
from headrace.placement.explain_rules import explain

GPU = "n1-gpu0"
LOST = "XID 79: the GPU has fallen off the bus"


@pytest.fixture
def small(empty_history):
    """One node with two GPUs."""
    empty_history.joined = empty_history.node("n1", gpus=2)
    empty_history.queue("default")
    return empty_history


def faulted(history, action="drain", device=GPU, text=LOST, code=79):
    number = history.reports["n1"] = history.reports.get("n1", 0) + 1
    history.given(
        DeviceFaulted(
            node="n1", device=device, incarnation="j1", report=number, action=action, text=text,
            code=code,
        )
    )  # fmt: skip


def says(history, healthy, **changes):
    """The node says how its first GPU is."""
    first, *others = history.joined.devices
    fault = "" if healthy else "its driver asks for it to be reset"
    first = msgspec.structs.replace(first, healthy=healthy, fault=fault)
    history.given(msgspec.structs.replace(history.joined, devices=(first, *others), **changes))


def runs(history, name="a", **fields):
    history.job(name, **fields)
    history.settled()
    history.starts(name)
    history.settled()
    return [share.device for share in history.placed(name).workers[0].devices]


def test_the_job_on_a_faulty_device_is_stopped_for_it_and_placed_elsewhere(small):
    assert runs(small) == [GPU]
    faulted(small)

    (evicted,) = small.settled()
    assert (evicted.reason, evicted.act.names) == (
        "device-faulty", {"device": GPU, "why": LOST},
    )  # fmt: skip
    assert LOST in explain(small.state, "a", small.now_us).text

    small.exits("a", reason="stopped", exit_code=143)
    released, placed = small.settled()
    assert released.again
    assert isinstance(placed, GangPlaced)
    assert [share.device for share in placed.workers[0].devices] == ["n1-gpu1"]


def test_a_job_that_ends_with_its_device_is_not_failed_but_placed_again(small):
    runs(small)
    faulted(small)
    small.exits("a", reason="exited", exit_code=1, message="no device")

    released, placed = small.settled()
    assert (released.again, placed.attempt) == (True, 2)


def test_jobs_on_other_devices_run_on(small):
    runs(small, "a")
    runs(small, "b")
    faulted(small, device="n1-gpu1")

    (evicted,) = small.settled()
    assert evicted.job == "b"


def test_after_a_restart_the_device_takes_work_again(small):
    runs(small, gpus=2000)
    faulted(small, action="restart", text="XID 94: contained", code=94)
    (evicted,) = small.settled()
    assert evicted.reason == "device-faulty"
    small.exits("a", reason="stopped", exit_code=143)

    assert small.settled()[-1].milli == 2000


def test_a_job_whose_devices_fail_again_and_again_ends(small):
    runs(small, gpus=2000)
    ends = []
    for _ in range(4):
        faulted(small, action="restart", text="XID 94: contained", code=94)
        small.settled()
        small.exits("a", reason="stopped", exit_code=143)
        ends = small.settled()
        if "a" in small.state.jobs:
            small.starts("a")
            small.settled()
    assert (ends[-1].outcome, ends[-1].reason) == ("failed", "device-faulty")


def usable(history):
    return [d.usable for d in history.state.nodes["n1"].devices]


def test_an_operator_who_uncordons_the_node_takes_the_device_back(small):
    faulted(small)
    assert usable(small) == [False, True]
    small.given(NodeChangeRequested(node="n1", change="uncordon", user="ada"))
    assert small.settled() == [NodeChanged(node="n1", change="uncordon")]
    assert usable(small) == [True, True]


def test_a_device_returns_when_its_node_calls_it_healthy_after_it_called_it_faulty(small):
    faulted(small)
    says(small, healthy=True)
    assert usable(small) == [False, True]  # nobody had called it faulty: that says nothing
    says(small, healthy=False)
    assert usable(small) == [False, True]
    says(small, healthy=True)
    assert usable(small) == [True, True]


def test_a_boot_mends_what_had_happened(small):
    faulted(small)
    says(small, healthy=True, boot="boot-2")
    assert usable(small) == [True, True]


def test_a_node_that_calls_a_device_faulty_has_its_job_moved(small):
    assert runs(small) == [GPU]
    says(small, healthy=False)

    (evicted,) = small.settled()
    assert evicted.act.names["why"] == "its driver asks for it to be reset"
    says(small, healthy=False, version="2")
    assert small.settled() == []  # said again, it is the same fault


def test_a_fault_of_an_unknown_node_or_device_changes_nothing(small):
    faulted(small, device="elsewhere")
    small.given(
        DeviceFaulted(node="n9", device=GPU, incarnation="j1", report=1, action="drain", text="x")
    )
    assert usable(small) == [True, True]
    assert small.settled() == []


def test_a_snapshot_keeps_what_is_at_fault(small):
    runs(small)
    faulted(small)
    small.cut()
    (evicted,) = small.settled()
    assert evicted.reason == "device-faulty"
    assert usable(small) == [False, True]


def test_a_share_that_was_overdrawn_fails_its_job(small):
    runs(small, gpus=500)
    small.exits("a", reason="over-share", exit_code=137, message="it held 60 GiB")
    finished = small.settled()[-1]
    assert (finished.outcome, finished.reason, finished.message) == (
        "failed", "out-of-memory", "it held 60 GiB",
    )  # fmt: skip


def test_a_node_without_gpus_runs_jobs_that_need_none(empty_history):
    history = empty_history
    history.node("n1", gpus=0)
    history.queue("default")
    history.job("a", gpus=0)
    (placed,) = history.settled()
    assert [(worker.node, worker.devices) for worker in placed.workers] == [("n1", ())]
    history.job("b", gpus=1000)
    assert history.settled() == []


def test_a_slice_is_a_device_of_its_own(empty_history):
    history = empty_history
    slices = tuple(
        Device(
            device=f"MIG-{n}", index=0, model="H100-80GB", memory_bytes=10 * 10**9,
            profile="1g.10gb", parent="GPU-0",
        )
        for n in range(2)
    )  # fmt: skip
    history.node("n1", gpus=0, devices=slices)
    history.queue("default")
    faulted(history, device="MIG-0")
    history.settled()
    assert usable(history) == [False, True]
