"""What holds under every policy, which machine each of them takes, and what it takes to add one."""

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.scheduling import gangs
from headrace.scheduling.actions import ACTIONS, take_turn
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.banks import DEVICE_MILLI, HELD
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.policies import POLICIES
from headrace.scheduling.ranking import ranked
from headrace.scheduling.settings import Settings
from headrace.scheduling.world import World

PLENTY = Ration(quota=-1)
RUNS = (gangs.BOUND, gangs.RUNNING)  # at the next turn
EVERY = pytest.mark.parametrize("policy", sorted(POLICIES))

machines = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(("", "fast"))), min_size=1, max_size=4
)
rations = st.tuples(st.integers(0, 4), st.sampled_from((-1, 2, 4, 6)))
trees = st.fixed_dictionaries({"ads": rations, "vision": rations})
wanted = st.tuples(
    st.sampled_from(("ads", "vision")),
    st.integers(1, 3),  # tasks
    st.integers(0, 2),  # of which may be missing
    st.sampled_from((0, 250, 500, 1000, 2000)),
    st.sampled_from((20, 50, 80)),
)
others = st.sampled_from(sorted(POLICIES))


def shape(milli, cpu_milli=4000):
    whole, share = divmod(milli, DEVICE_MILLI)
    return Shape(
        devices=whole + bool(share), device_milli=share or DEVICE_MILLI, cpu_milli=cpu_milli
    )


def gang(number, one):
    queue, tasks, surplus, milli, priority = one
    root = Group(roles=(Role(name="default", minimum=max(1, tasks - surplus)),))
    made = Gang(name=f"g{number}", queue=queue, root=root, priority=priority, age=number)
    for rank in range(tasks):
        made.add(Task(name=f"g{number}-{rank}", gang=made.name, shape=shape(milli), rank=rank))
    return made


def world(kinds, queues, there, chosen):
    """A turn in which everything that ever came is what is expected to come."""
    specs = [
        MachineSpec(name=f"n{number}", devices=devices, cpu_milli=16_000, pool=pool)
        for number, (devices, pool) in enumerate(kinds)
    ]
    tree = {
        name: QueueSpec(
            queue=name,
            age=age,
            rations=(
                Ration(quota=quota * 1000, limit=limit * 1000 if limit > 0 else -1),
                PLENTY,
                PLENTY,
            ),
        )
        for age, (name, (quota, limit)) in enumerate(queues.items())
    }
    seen = Arrivals()
    for task in (task for gang in there for task in gang.all_tasks()):
        seen.add(task.shape.amounts(0)[0], task.shape.cpu_milli)
    made = World(specs, tree, there, now_us=120_000_000, settings=chosen)
    made.learn(seen)
    return made


def next_turn(old, coming):
    """The gangs at the next turn: what was bound runs, what was evicted or promised waits, and with
    it all of a gang that has lost part of its minimum.
    """
    there = []
    for was in old.gangs.values():
        goes_on = was.count("default", RUNS) >= was.roles[0].minimum
        made = Gang(
            name=was.name, queue=was.queue, root=was.root, priority=was.priority, age=was.age
        )
        for task in was.all_tasks():
            runs = goes_on and task.state in RUNS
            made.add(
                Task(
                    name=task.name,
                    gang=was.name,
                    shape=task.shape,
                    rank=task.rank,
                    state=gangs.RUNNING if runs else gangs.PENDING,
                    place=task.place if runs else None,
                )
            )
        made.started_at_us = 1 if made.any_in((gangs.RUNNING,)) else None
        there.append(made)
    return [*there, *(gang(len(there) + number, one) for number, one in enumerate(coming))]


def check(turn):
    used, held = Counter(), Counter()
    for one in turn.gangs.values():
        placed = one.count("default", gangs.PLACED)
        assert placed == 0 or placed >= one.roles[0].minimum, "all of its minimum or nothing"
        for task in one.all_tasks():
            if task.place is not None:
                used.update({(task.place.node, d): task.place.milli for d in task.place.devices})
            if task.state in gangs.PLACED:
                held[one.queue] += (task.coming or task.place).amounts[0]
    assert all(milli <= DEVICE_MILLI for milli in used.values()), "no device is given twice"
    for machine in turn.machines.values():
        assert all(free >= 0 for free in machine.free_later), "nothing is promised twice"
    for name, account in turn.accounts.by_name.items():
        limit = account.spec.rations[0].limit
        assert limit == -1 or held[name] <= limit


@EVERY
@given(
    kinds=machines,
    queues=trees,
    rounds=st.lists(st.lists(wanted, max_size=5), min_size=1, max_size=3),
    other=others,
)
@example(  # the surplus is elsewhere than the rest of a gang that has to go as a whole
    kinds=[(2, ""), (1, "")],
    queues={"ads": (0, -1), "vision": (0, -1)},
    rounds=[
        [
            ("ads", 1, 0, 0, 20),
            ("ads", 1, 0, 0, 20),
            ("ads", 1, 0, 1000, 20),
            ("ads", 3, 1, 500, 20),
        ],
        [("ads", 1, 0, 250, 50), ("ads", 1, 0, 1000, 50)],
    ],
    other="binpack",
)
@settings(max_examples=60, deadline=None)
def test_nothing_is_given_twice_nor_in_part_nor_beyond_a_limit(
    policy, kinds, queues, rounds, other
):
    chosen = Settings(policy=policy, cpu_policy=other, policies={"fast": other})
    turn = world(kinds, queues, [], chosen)
    for coming in rounds:
        turn = world(kinds, queues, next_turn(turn, coming), chosen)
        for action in ACTIONS:
            take_turn(turn, (action,))
            check(turn)


@EVERY
@given(
    kinds=machines,
    quotas=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    there=st.lists(wanted, max_size=8),
    new=wanted,
)
@settings(max_examples=60, deadline=None)
def test_what_is_within_a_quota_is_never_reclaimed(policy, kinds, quotas, there, new):
    queues = {name: (quota, -1) for name, quota in zip(("ads", "vision"), quotas, strict=True)}
    chosen = Settings(policy=policy)
    full = world(kinds, queues, [gang(number, one) for number, one in enumerate(there)], chosen)
    take_turn(full, ("allocate",))
    turn = world(kinds, queues, next_turn(full, [new]), chosen)
    before = {name: account.held[0] for name, account in turn.accounts.by_name.items()}
    take_turn(turn, ("allocate", "reclaim"))
    for one in turn.gangs.values():
        if any(task.state == gangs.EVICTED for task in one.all_tasks()):
            assert before[one.queue] > queues[one.queue][0] * 1000


def cluster(chosen, *, used=()):
    """Machines a, b and c, of 4, 4 and 8 GPUs, of which so many are taken."""
    specs = [
        MachineSpec(name=name, devices=devices, cpu_milli=64_000, pool=pool)
        for name, devices, pool in (("a", 4, ""), ("b", 4, ""), ("c", 8, "fast"))
    ]
    made = World(specs, {}, [], settings=chosen)
    for name, count in used:
        place = Place(node=name, amounts=(count * 1000, 0, 0), devices=(*range(count),), milli=1000)
        made.machines[name].book(place, HELD)
    return made


def order(chosen, milli, *, used=()):
    return "".join(ranked(cluster(chosen, used=used), shape(milli)))


def test_binpack_takes_the_fullest_machine_and_spread_the_emptiest():
    used = [("b", 1), ("c", 3)]
    assert order(Settings(policy="binpack"), 1000, used=used) == "bac"
    assert order(Settings(policy="spread"), 1000, used=used) == "abc"


def test_tasks_without_gpus_may_have_a_policy_of_their_own():
    chosen = Settings(policy="binpack", cpu_policy="spread")
    world = cluster(chosen)
    place = Place(node="a", amounts=(0, 8000, 0))
    world.machines["a"].book(place, HELD)
    assert list(ranked(world, shape(0))) == ["b", "c", "a"]


def test_a_pool_has_its_own_policy_and_comes_after_the_others_unless_they_are_busy():
    chosen = Settings(policies={"fast": "spread"})
    assert order(chosen, 1000, used=[("b", 1), ("c", 7)]) == "bac"
    assert order(chosen, 4000, used=[("b", 1)]) == "ac"
    leaving = cluster(chosen, used=[("b", 4)])
    place = Place(node="a", amounts=(1000, 0, 0), devices=(0,), milli=1000)
    leaving.machines["a"].book(place, 1)
    assert list(ranked(leaving, shape(4000))) == ["c", "a"]


def test_a_policy_that_is_gone_is_binpack():
    used = [("b", 1), ("c", 3)]
    assert order(Settings(policy="gone"), 1000, used=used) == "bac"


def widest(trial, expected):
    """The machine with the most GPUs."""
    return (trial.waits, -trial.machine.spec.devices)


def test_a_policy_is_one_function_and_one_line_in_the_table(monkeypatch):
    monkeypatch.setitem(POLICIES, "widest", widest)
    assert order(Settings(policy="widest"), 1000) == "cab"
    one = gang(0, ("ads", 2, 0, 1000, 50))
    turn = world([(1, ""), (4, ""), (2, "")], {"ads": (4, -1)}, [one], Settings(policy="widest"))
    take_turn(turn)
    assert {task.place.node for task in one.all_tasks()} == {"n1"}
    check(turn)
