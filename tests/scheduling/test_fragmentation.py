"""What fragmentation-aware placement expects, and that it expects the same everywhere."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.banks import DEVICE_MILLI, HELD
from headrace.scheduling.fragmentation import MICRO, NODE_MILLI, expect
from headrace.scheduling.gangs import Place, Shape
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.ranking import Ranking, ranked
from headrace.scheduling.settings import Settings
from headrace.scheduling.world import World

MILLI = st.sampled_from([0, 50, 333, 470, 810, 1000, 2000])
PODS = st.lists(st.tuples(MILLI, st.integers(0, 20_000)), max_size=30)


def arrivals(pods):
    seen = Arrivals()
    for milli, cpu in pods:
        seen.add(milli, cpu)
    return seen


def spec(name, gpus=4, cpu=48_000):
    return MachineSpec(name=name, devices=gpus, cpu_milli=cpu)


def shape(milli, cpu):
    whole, share = divmod(milli, DEVICE_MILLI)
    return Shape(devices=whole + bool(share), device_milli=share or DEVICE_MILLI, cpu_milli=cpu)


def world(specs, seen, used=()):
    made = World(specs, {}, [], settings=Settings(policy="fragmentation"))
    for name, milli in used:
        take(made, name, Place(node=name, amounts=(milli, 0, 0), devices=(0,), milli=milli))
    made.learn(seen)
    return made


def take(made, name, place):
    made.machines[name].book(place, HELD)
    made.touched.append(name)


def test_room_that_nothing_that_arrived_fits_into_is_left_over_whole():
    expected = expect(arrivals([(810, 0)] * 10))
    assert expected.waste([190], 0) == 190 * MICRO
    assert expected.waste([810], 0) < 190 * MICRO


def test_a_gpu_that_the_free_cores_cannot_feed_is_wasted():
    expected = expect(arrivals([(1000, 8000)]))
    fed, unfed = expected.waste([1000, 1000], 16_000), expected.waste([1000, 1000], 8000)
    assert fed == expected.waste([1000, 1000], 128_000)
    assert 900 * MICRO < unfed - fed < DEVICE_MILLI * MICRO


def test_cores_waste_nothing_where_nobody_asks_for_them():
    expected = expect(arrivals([(1000, 0), (400, 0)] * 8))
    assert expected.waste([1000, 1000], 0) == expected.waste([1000, 1000], 64_000)


def test_a_node_larger_than_the_table_wastes_as_much_as_smaller_ones_that_are_like_it():
    expected = expect(arrivals([(1000, 8000), (500, 12_000)] * 8))
    half = [1000] * (NODE_MILLI // DEVICE_MILLI)
    assert expected.waste(half * 2, 96_000) == 2 * expected.waste(half, 48_000)


def test_a_task_goes_where_gpus_are_left_that_requests_for_several_cannot_use_anyhow():
    seen = arrivals([(1000, 0)] * 12 + [(8000, 0)] * 4)
    used = [("b", 1000), ("c", 1000)]
    made = world([spec("a", 8), spec("b", 8), spec("c", 2)], seen, used)
    assert list(ranked(made, shape(1000, 0))) == ["b", "c", "a"]
    assert list(ranked(made, shape(300, 0))) == ["b", "c", "a"]
    assert list(ranked(made, shape(8000, 0))) == ["a"]


def test_the_odd_gpus_of_nodes_are_used_before_pairs_are_split():
    seen = arrivals([(1000, 0)] * 12 + [(2000, 0)] * 4)
    made = world([spec("a", 4), spec("b", 4), spec("c", 3)], seen, used=[("b", 1000)])
    assert list(ranked(made, shape(1000, 0))) == ["b", "c", "a"]


def test_nodes_are_not_kept_whole_where_nobody_asks_for_several_gpus():
    made = world([spec("a", 8), spec("b", 8)], arrivals([(1000, 0)] * 16), used=[("b", 1000)])
    assert list(ranked(made, shape(1000, 0))) == ["a", "b"]


def test_a_task_that_needs_many_cores_goes_where_others_leave_them():
    seen = arrivals([(1000, 8000)] * 15 + [(1000, 24_000)])
    made = world([spec("a", cpu=32_000), spec("b", cpu=64_000)], seen)
    assert list(ranked(made, shape(1000, 24_000))) == ["b", "a"]


def test_what_was_learned_does_not_grow_with_what_arrives():
    seen = arrivals([(1000, 8000)])
    learned = seen.copy()
    seen.add(1000, 8000)
    assert (seen.devices, seen.requests) == ({1000: 2}, {1000: {8000: 2}})
    assert (learned.devices, learned.requests) == ({1000: 1}, {1000: {8000: 1}})


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=50))
def test_few_counts_are_kept_whatever_is_asked_for(pods):
    seen = arrivals(pods)
    assert set(seen.requests) <= {*range(100, 1000, 100), *range(1000, 16_001, 1000)}
    assert all(set(counts) <= {*range(0, 128_001, 2000)} for counts in seen.requests.values())
    with_gpus = sum(milli > 0 for milli, _ in pods)
    assert sum(sum(counts.values()) for counts in seen.requests.values()) == with_gpus


def test_a_share_goes_where_what_it_leaves_will_be_used():
    seen = arrivals([(600, 0), (400, 0)] * 8)
    made = world([spec("a", 1), spec("b", 1)], seen, used=[("a", 300), ("b", 600)])
    assert list(ranked(made, shape(400, 0))) == ["b", "a"]


def test_a_task_without_gpus_takes_the_cores_that_no_gpu_needs():
    seen = arrivals([(1000, 12_000)] * 8)
    made = world([spec("a", cpu=48_000), spec("b", cpu=96_000)], seen)
    assert list(ranked(made, shape(0, 8000))) == ["b", "a"]


def test_what_was_learned_ranks_machines_anew():
    used = [("a", 300), ("b", 600)]
    made = world([spec("a", 1), spec("b", 1)], arrivals([(700, 0)] * 8), used)
    assert next(ranked(made, shape(200, 0))) == "b"
    made.learn(arrivals([(500, 0), (200, 0), (400, 0)] * 8))
    assert next(ranked(made, shape(200, 0))) == "a"


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


@given(PODS, st.permutations([spec("a"), spec("b", 2, 8000), spec("c", 8, 96_000), spec("d", 0)]))
def test_where_pods_go_depends_neither_on_the_order_of_machines_nor_on_what_was_ranked_before(
    pods, specs
):
    seen = Arrivals()
    ordered = world(sorted(specs, key=lambda s: s.name), seen)
    permuted = world(specs, seen)
    for milli, cpu in pods:
        seen.add(milli, cpu)
        one = shape(milli, cpu)
        for each in (ordered, permuted) if seen.tell else ():
            each.learn(seen)
        names = list(ranked(ordered, one))
        assert names == list(ranked(permuted, one)) == list(Ranking(permuted, one).names())
        for each in (ordered, permuted) if names else ():
            take(each, names[0], each.machines[names[0]].fit(one)[0])
