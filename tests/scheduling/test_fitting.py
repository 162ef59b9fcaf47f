"""Where gangs fit, and whom to stop when they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events.gangs import Share
from headrace.events.jobs import Accelerator, Gang
from headrace.events.queues import Queue
from headrace.scheduling.cluster import Device, Node, Scratch
from headrace.scheduling.fitting import Fitting, matches
from headrace.scheduling.tree import Tree, Usage
from headrace.scheduling.victims import Candidate, Gainer, search

GB = 10**9


def node(name, used=(0, 0), model="H100-80GB", cpu=64_000):
    devices = [
        Device(device=f"{name}-{i}", index=i, model=model, memory_bytes=80 * GB, used_milli=milli)
        for i, milli in enumerate(used)
    ]
    return Node(node=name, address=name, devices=devices, cpu_milli=cpu, memory_bytes=100 * GB)


def fit(nodes, gang):
    booking = Fitting(Scratch({n.node: n for n in nodes})).fit(gang)
    if booking is None:
        return None
    return [(w.node, [(s.device, s.milli) for s in w.devices]) for w in booking.workers]


def gang(milli, nodes=1, **fields):
    return Gang(nodes=nodes, accelerators=(Accelerator(milli=milli),), **fields)


def test_the_fullest_node_is_taken_first():
    nodes = [node("a"), node("b", (1000, 0))]
    assert fit(nodes, gang(1000)) == [("b", [("b-1", 1000)])]


def test_a_share_goes_to_the_fullest_shared_device_that_has_room():
    nodes = [node("a", (500, 250)), node("b", (1000, 0))]
    assert fit(nodes, gang(500)) == [("a", [("a-0", 500)])]
    assert fit(nodes, gang(600)) == [("a", [("a-1", 600)])]
    assert fit(nodes, gang(900)) == [("b", [("b-1", 900)])]


def test_whole_gpus_are_wholly_free_ones():
    assert fit([node("a", (1, 0))], gang(2000)) is None


def test_a_job_without_gpus_leaves_machines_with_gpus_alone():
    assert fit([node("a"), node("z", ())], Gang(cpu_milli=1000)) == [("z", [])]


def test_a_node_that_accepts_nothing_is_passed_over():
    silent = node("a")
    silent.accepting = False
    assert fit([silent], gang(1000)) is None


@pytest.mark.parametrize(
    ("kind", "yes"),
    [
        (Accelerator(milli=1, model="H100"), True),
        (Accelerator(milli=1, model="h100-80gb"), True),
        (Accelerator(milli=1, model="H10"), False),
        (Accelerator(milli=1, memory_bytes_min=80 * GB), True),
        (Accelerator(milli=1, memory_bytes_min=86 * GB), True),
        (Accelerator(milli=1, memory_bytes_min=87 * GB), False),
        (Accelerator(milli=1, memory_bytes_max=40 * GB), False),
    ],
)
def test_a_kind_is_matched_by_model_and_marketed_memory(kind, yes):
    device = Device(device="x", index=0, model="H100-80GB", memory_bytes=80 * GB)
    assert matches(device, kind) is yes


useds = st.lists(st.integers(0, 1000), min_size=1, max_size=4)
wants = st.lists(
    st.tuples(st.sampled_from((100, 250, 500, 1000, 2000)), st.integers(1, 3)), max_size=12
)


@given(useds=st.lists(useds, min_size=1, max_size=4), wants=wants)
def test_never_two_on_one_milli_and_always_all_or_nothing(useds, wants):
    base = {f"n{i}": node(f"n{i}", tuple(used)) for i, used in enumerate(useds)}
    before = {name: [d.used_milli for d in n.devices] for name, n in base.items()}
    fitting = Fitting(Scratch(base))
    for milli, nodes in wants:
        booking = fitting.fit(gang(milli, nodes, cpu_milli=1000))
        fresh = Fitting(fitting.scratch.fork()).fit(gang(milli, nodes, cpu_milli=1000))
        assert booking == fresh  # what is remembered makes no difference
        if booking is None:
            continue
        assert len({worker.node for worker in booking.workers}) == nodes
        assert booking.milli == milli * nodes
        fitting.take(booking)
        for name in base:
            tried = fitting.scratch.node(name)
            assert all(d.used_milli <= 1000 for d in tried.devices)
            assert tried.cpu_used_milli <= tried.cpu_milli
    assert before == {name: [d.used_milli for d in n.devices] for name, n in base.items()}


def queues():
    return {
        "red": Queue(queue="red", kind="department", quota_milli=4000),
        "blue": Queue(queue="blue", kind="department", quota_milli=2000),
        "r": Queue(queue="r", kind="project", parent="red", quota_milli=4000),
        "b": Queue(queue="b", kind="project", parent="blue", quota_milli=1000),
    }


def candidate(name, device, priority=40, placed_at=1, queue="b"):
    shares = (Share(device=device),)
    worker = {"rank": 0, "node": device.split("-")[0], "address": "x", "devices": shares}
    from headrace.events.gangs import Worker
    from headrace.scheduling.cluster import Booking

    return Candidate(
        job=name, queue=queue, priority=priority, placed_at=placed_at,
        booking=Booking(workers=(Worker(**worker),)),
    )  # fmt: skip


def found(candidates, wanted, usage, nodes):
    tree = Tree(queues(), usage, 6000)
    scratch = Scratch({n.node: n for n in nodes})
    gainer = Gainer(gang=wanted, queue="r", milli=sum(a.milli for a in wanted.accelerators))
    reclaim = search(scratch, tree, candidates, gainer)
    return None if reclaim is None else {victim.job for victim in reclaim.victims}


def full(milli):
    return {"blue": Usage(milli=milli), "b": Usage(milli=milli)}


def test_the_lowest_priority_and_then_the_youngest_is_taken_and_no_more_than_needed():
    nodes = [node("n", (1000, 1000, 1000))]
    several = [
        candidate("old", "n-0", placed_at=1),
        candidate("young", "n-1", placed_at=9),
        candidate("cheap", "n-2", priority=20, placed_at=5),
    ]
    assert found(several, gang(1000), full(3000), nodes) == {"cheap"}
    assert found(several[:2], gang(1000), full(3000), nodes) == {"young"}


def test_a_victim_elsewhere_than_where_the_gang_fits_is_spared():
    nodes = [node("m", (1000,)), node("n", (1000, 1000))]
    several = [
        candidate("useless", "m-0", priority=20),
        candidate("one", "n-0"),
        candidate("two", "n-1"),
    ]
    assert found(several, gang(2000), full(6000), nodes) == {"one", "two"}


def test_nothing_is_taken_from_a_department_or_project_within_its_quota():
    nodes = [node("n", (1000, 1000))]
    several = [candidate("one", "n-0"), candidate("two", "n-1")]
    assert found(several, gang(1000), full(2000), nodes) is None
    usage = {"blue": Usage(milli=3000), "b": Usage(milli=1000)}
    assert found(several, gang(1000), usage, nodes) is None
    assert found(several, gang(2000), full(3000), nodes) is None  # one more would be within quota


def test_a_queue_that_would_exceed_its_quota_takes_nothing():
    nodes = [node("n", (1000, 1000))]
    several = [candidate("one", "n-0")]
    usage = full(4000) | {"red": Usage(milli=4000), "r": Usage(milli=4000)}
    assert found(several, gang(1000), usage, nodes) is None
