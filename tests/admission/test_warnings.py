"""What cannot run on today's nodes is admitted, and says so."""

import msgspec
import pytest

from headrace.events.asked import Accelerator, Gang
from headrace.events.nodes import NodeChanged

from .facts import GB, decided, gang, history, node, requested


def warning(wants, *nodes):
    return decided(history(*nodes, requested(wants=wants))).warning


@pytest.mark.parametrize(
    "wants",
    [
        gang(8_000, model="H100"),
        gang(500, model="h100-80gb"),
        gang(0, cpu_milli=64_000),
        gang(1_000, nodes=2),
        Gang(gpu_memory_bytes=80 * GB),
        Gang(accelerators=(Accelerator(milli=1000, memory_bytes_min=80 * GB),)),
        Gang(accelerators=(Accelerator(milli=1000, model="A100"), Accelerator(milli=8000))),
    ],
)
def test_what_today_could_run_is_admitted_without_a_word(wants):
    assert warning(wants, node("n2")) == ""


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        (gang(8_000, nodes=2, model="H100"), "no 2 nodes have 8 × H100 each; nearest: nodes: 1 would fit n1"),
        (gang(16_000, model="H100"), "no node has 16 × H100; nearest: n1 has 8 of that kind"),
        (gang(1_000, model="A100"), "no node has 1 × A100; there are H100-80GB"),
        (Gang(gpu_memory_bytes=200 * GB), "no node has 200GB of one GPU; there are H100-80GB"),
        (gang(0, cpu_milli=128_000), "no node has 128 CPUs; n1 has the most CPUs, 64"),
        (gang(1_000, memory_bytes=10**13), "no node has 1 × GPU, 10000GB of memory; n1 has the most memory, 512GB"),
    ],
)  # fmt: skip
def test_what_today_cannot_run_names_what_is_nearest(wants, said):
    assert warning(wants) == f"accepted, but cannot run today: {said}"


def test_a_cordoned_node_does_not_count_until_it_is_uncordoned():
    run = history(NodeChanged(node="n1", change="cordon"), requested("a-1"))
    assert "no node has joined yet" in decided(run).warning
    run.given(node(), requested("a-2"))  # it says its inventory again
    assert decided(run).warning
    run.given(NodeChanged(node="n1", change="uncordon"), requested("a-3"))
    assert decided(run).warning == ""


def test_a_sick_gpu_does_not_count():
    replace = msgspec.structs.replace
    sick = tuple(replace(device, healthy=False) for device in node().devices)
    run = history(replace(node(), devices=sick), requested())
    assert decided(run).warning.endswith("no node has 1 × GPU; there are no GPUs")


def test_the_tasks_of_a_group_do_not_repeat_its_warning():
    trials = ({}, {})
    run = history(requested(wants=gang(1_000, model="A100"), trials=trials, kind_of_group="array"))
    group, *tasks = (draft.event for draft in run.settled())
    assert group.warning
    assert [task.warning for task in tasks] == ["", ""]
