"""What fragmentation-aware placement expects, and that it expects the same everywhere."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.banks import DEVICE_MILLI, HELD
from headrace.scheduling.fragmentation import MICRO, STARVED_PART, expect
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


def test_gpus_that_the_free_cores_cannot_feed_are_starved():
    expected = expect(arrivals([(1000, 8000)]))
    assert expected.waste([1000, 1000], 16_000) == 0
    assert expected.waste([1000, 1000], 8000) == DEVICE_MILLI * MICRO // STARVED_PART


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
