"""Who is evicted for one gang: nobody who could have stayed, and nobody for nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduling import gangs
from headrace.scheduling.actions import take_turn
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.eviction_budgets import EvictionBudgets
from headrace.scheduling.gangs import Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.likeness import Likeness
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.reclaiming import searches
from headrace.scheduling.victims import Chunks, Search
from headrace.scheduling.world import World

FREE = Ration(quota=-1)
running = st.lists(
    st.tuples(
        st.sampled_from(("ads", "vision")),
        st.integers(1, 3),  # tasks
        st.integers(0, 2),  # of which may be missing
        st.sampled_from((250, 500, 1000, 2000)),
        st.sampled_from((20, 50)),
    ),
    max_size=10,
)
waiting = st.tuples(st.integers(1, 3), st.sampled_from((500, 1000, 2000, 3000)))


def shape_of(milli):
    whole, share = divmod(milli, 1000)
    return Shape(devices=whole or 1, device_milli=share or 1000)


def gang(name, age, one):
    queue, tasks, surplus, milli, priority = one
    role = Role(name="default", minimum=max(1, tasks - surplus))
    made = Gang(name=name, queue=queue, root=Group(roles=(role,)), priority=priority, age=age)
    for rank in range(tasks):
        made.add(Task(name=f"{name}-{rank}", gang=name, shape=shape_of(milli), rank=rank))
    return made


def world(devices, quotas, held, asked):
    """Machines filled with what fits, and one gang of `ads` that waits."""
    specs = [
        MachineSpec(name=f"n{i}", devices=d, device_memory_bytes=80_000, cpu_milli=64_000)
        for i, d in enumerate(devices)
    ]
    queues = {
        name: QueueSpec(queue=name, age=age, rations=(Ration(quota=quota * 1000), FREE, FREE))
        for age, (name, quota) in enumerate(zip(("ads", "vision"), quotas, strict=True))
    }
    empty = World(specs, queues, [])
    there = []
    for age, one in enumerate(held):
        made = gang(f"g{age}", age, one)
        places = [settle(empty, task.shape) for task in made.all_tasks()]
        if None in places:
            continue
        for task, place in zip(list(made.all_tasks()), places, strict=True):
            made.move(task, gangs.RUNNING)
            task.place = place
        there.append(made)
    tasks, milli = asked
    return World(specs, queues, [*there, gang("new", 99, ("ads", tasks, 0, milli, 90))])


def settle(empty, shape):
    for machine in empty.machines.values():
        found = machine.fit(shape)
        if found is not None:
            machine.book(found[0], 0)
            return found[0]
    return None


def evicted(one):
    return [task for task in one.all_tasks() if task.state == gangs.EVICTED]


@pytest.mark.parametrize("action", ["consolidate", "reclaim", "preempt"])
@given(
    devices=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    quotas=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    held=running,
    asked=waiting,
)
@settings(max_examples=150, deadline=None)
def test_whoever_is_evicted_could_not_have_stayed(action, devices, quotas, held, asked):
    turn = world(devices, quotas, held, asked)
    take_turn(turn, (action,))
    new = turn.gangs["new"]
    for one in turn.gangs.values():
        lost = evicted(one)
        if not lost:
            continue
        assert new.count("default", (gangs.PIPELINED,)) == len(new.tasks["default"])
        lacking = one.roles[0].minimum - one.count("default", gangs.PLACED)
        mark = turn.mark()
        stayed = sum(stays(turn, task) for task in lost)
        turn.back_to(mark)
        assert stayed < max(1, lacking), f"{one.name} was evicted for nothing"


def stays(turn, task):
    if not turn.machines[task.place.node].still_fits(task.place):
        return False
    turn.keep(task, gangs.RUNNING)
    return True


@given(
    devices=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    quotas=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    held=running,
    asked=waiting,
)
@settings(max_examples=100, deadline=None)
def test_taking_everything_back_leaves_the_world_as_it_was(devices, quotas, held, asked):
    turn = world(devices, quotas, held, asked)
    before = books(turn)
    mark = turn.mark()
    for action in ("consolidate", "reclaim", "preempt"):
        take_turn(turn, (action,))
    turn.back_to(mark)
    assert books(turn) == before


def books(turn):
    return (
        [(m.milli[0][:], m.milli[1][:], m.milli[2][:], m.free_later, [(b.wholes_now, b.wholes_later) for b in m.banks])
         for m in turn.machines.values()],
        [(t.name, t.state, t.place, t.coming) for g in turn.gangs.values() for t in g.all_tasks()],
        [(a.held[:], a.firm[:]) for a in turn.accounts.by_name.values()],
    )  # fmt: skip


def test_a_machine_that_could_never_hold_the_gang_costs_nobody_a_place():
    full = [("vision", 1, 0, 2000, 20), ("vision", 1, 0, 2000, 20)]
    turn = world([2, 2], (4, 0), full, (1, 3000))
    take_turn(turn, ("reclaim",))
    assert [task.state for g in turn.gangs.values() for task in g.all_tasks()] == [
        gangs.RUNNING, gangs.RUNNING, gangs.PENDING,
    ]  # fmt: skip
    assert turn.gangs["g0"].tasks["default"][0].place == Place(
        node="n0", amounts=(2000, 0, 0), devices=(0, 1), milli=1000
    )


def chunks_of(turn):
    """What a search for the gang that waits lists, with who stands for whom."""
    new, search = turn.gangs["new"], next(searches(turn, turn.gangs["new"]))
    listed = list(Chunks(turn, new, search, EvictionBudgets(turn)))
    return {one.gang: turn.while_still(Likeness).key(new, [one]) for one in listed}


def test_jobs_that_only_their_names_and_machines_tell_apart_are_alike():
    found = chunks_of(world([2, 2, 2], (2, 0), [("vision", 1, 0, 2000, 20)] * 3, (1, 2000)))
    assert len(found) == 3
    assert len(set(found.values())) == 1


@pytest.mark.parametrize(
    "other",
    [
        ("vision", 1, 0, 2000, 50),  # another priority
        ("vision", 1, 0, 1000, 20),  # leaves room on its machine
        ("vision", 2, 0, 1000, 20),  # has two tasks there
        ("vision", 2, 1, 1000, 20),  # could do without one of them
    ],
)
def test_jobs_that_differ_in_anything_that_counts_are_not_alike(other):
    held = [("vision", 1, 0, 2000, 20), ("vision", 1, 0, 2000, 20), other]
    found = chunks_of(world([2, 2, 2], (2, 0), held, (1, 2000)))
    assert found["g0"] == found["g1"] != found["g2"]


def test_on_a_machine_of_another_size_a_job_is_like_no_other():
    found = chunks_of(world([2, 2, 3], (2, 0), [("vision", 1, 0, 2000, 20)] * 3, (1, 2000)))
    assert found["g0"] == found["g1"] != found["g2"]


def test_who_waits_in_between_tells_jobs_apart():
    turn = world([2, 2], (2, 0), [("vision", 1, 0, 2000, 20)] * 2, (1, 2000))
    turn.gangs["g1"].age = 50
    turn.enter(gang("between", 10, ("vision", 1, 0, 1000, 20)))
    turn.begin(0)
    found = chunks_of(turn)
    assert found["g0"] != found["g1"]


def test_who_cannot_be_evicted_is_not_even_looked_at():
    held = [("ads", 1, 0, 1000, 20)] * 9
    turn = world([9], (0, 0), held, (1, 1000))
    for name in ("g0", "g1", "g3", "g4", "g5", "g6", "g8"):
        turn.gangs[name].preemptible = False
    asked = []
    anybody = Search(
        reaches=lambda _: True,
        may_lose=lambda other: asked.append(other.name) is None,
        keeps_minimum=lambda _: False,
        accepts=lambda _: True,
    )
    chunks = Chunks(turn, turn.gangs["new"], anybody, EvictionBudgets(turn))
    assert [chunk.gang for chunk in chunks] == asked == ["g7", "g2"]
