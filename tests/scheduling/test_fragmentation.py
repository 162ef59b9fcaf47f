"""What fragmentation-aware placement expects, and that it expects the same everywhere."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.events.jobs import Accelerator, Gang
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.cluster import DEVICE_MILLI, Device, Node, Scratch
from headrace.scheduling.fitting import Fitting
from headrace.scheduling.fragmentation import MICRO, STARVED_PART, expect

MILLI = st.sampled_from([0, 50, 333, 470, 810, 1000, 2000])
PODS = st.lists(st.tuples(MILLI, st.integers(0, 20_000)), max_size=30)


def arrivals(pods):
    seen = Arrivals()
    for milli, cpu in pods:
        seen.add(milli, cpu)
    return seen


def node(name, gpus=4, cpu=48_000, used=0):
    devices = [
        Device(device=f"{name}-{i}", index=i, model="A10", memory_bytes=1, used_milli=used)
        for i in range(gpus)
    ]
    return Node(node=name, devices=devices, cpu_milli=cpu, memory_bytes=1)


def gang(milli, cpu):
    return Gang(accelerators=(Accelerator(milli=milli),) if milli else (), cpu_milli=cpu)


def fitting(nodes, seen):
    found = Fitting(Scratch({n.node: n for n in nodes}), "fragmentation")
    found.learn(seen)
    return found


def test_room_that_nothing_that_arrived_fits_into_is_left_over_whole():
    expected = expect(arrivals([(810, 0)] * 10))
    assert expected.waste([190], 0) == 190 * MICRO
    assert expected.waste([810], 0) < 190 * MICRO


def test_gpus_that_the_free_cores_cannot_feed_are_starved():
    expected = expect(arrivals([(1000, 8000)]))
    assert expected.waste([1000, 1000], 16_000) == 0
    assert expected.waste([1000, 1000], 8000) == DEVICE_MILLI * MICRO // STARVED_PART


def test_a_share_goes_where_what_it_leaves_will_be_used():
    seen = arrivals([(600, 0), (400, 0)] * 8)
    nodes = [node("a", gpus=1, used=300), node("b", gpus=1, used=600)]
    booking = fitting(nodes, seen).fit(gang(400, 0))
    assert [worker.node for worker in booking.workers] == ["b"]


def test_a_job_without_gpus_takes_the_cores_that_no_gpu_needs():
    seen = arrivals([(1000, 12_000)] * 8)
    booking = fitting([node("a", cpu=48_000), node("b", cpu=96_000)], seen).fit(gang(0, 8000))
    assert [worker.node for worker in booking.workers] == ["b"]


@given(PODS, st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(0, 64_000), MILLI)
def test_growth_is_the_waste_after_less_the_waste_before(pods, free, cpu, milli):
    expected = expect(arrivals(pods))
    taken = [(have, min(milli, have)) for have in free[:2]]
    after = [have - part for have, part in taken] + free[2:]
    growth = expected.growth(taken, sum(free), cpu, cpu // 3)
    assert growth == expected.waste(after, cpu - cpu // 3) - expected.waste(free, cpu)


@given(PODS, st.randoms(use_true_random=False))
def test_what_is_expected_does_not_depend_on_the_order_of_arrival(pods, chooser):
    shuffled = list(pods)
    chooser.shuffle(shuffled)
    assert expect(arrivals(shuffled)) == expect(arrivals(pods))


@given(PODS, st.permutations([node("a"), node("b", 2, 8000), node("c", 8, 96_000), node("d", 0)]))
def test_where_pods_go_depends_neither_on_the_order_of_nodes_nor_on_what_was_ranked_before(
    pods, nodes
):
    seen = arrivals(pods)
    ordered = fitting(sorted(nodes, key=lambda n: n.node), seen)
    permuted = fitting(nodes, seen)
    for milli, cpu in pods:
        booking = ordered.fit(gang(milli, cpu))
        fresh = fitting([permuted.scratch.node(n.node).copy() for n in nodes], seen)
        assert booking == permuted.fit(gang(milli, cpu)) == fresh.fit(gang(milli, cpu))
        if booking is not None:
            ordered.take(booking)
            permuted.take(booking)
