"""What holds after every turn of the scheduling core, whatever the cluster and its gangs are."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduling import gangs
from headrace.scheduling.actions import take_turn
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import Gang, Group, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.world import World

PLENTY = Ration(quota=-1, limit=-1, weight=1)
ON_DEVICES = (gangs.BOUND, gangs.RUNNING, gangs.EVICTED)
TURN_US = 120_000_000

machines = st.lists(st.integers(1, 4), min_size=1, max_size=4)
rations = st.tuples(st.integers(0, 4), st.sampled_from((-1, 2, 4, 6)), st.integers(0, 3))
asked = st.tuples(
    st.sampled_from(("ads", "vision")),
    st.integers(1, 3),  # tasks
    st.integers(0, 2),  # of which may be missing
    st.sampled_from((250, 500, 1000, 2000)),
    st.sampled_from((20, 50, 80)),
    st.booleans(),
)
rounds = st.lists(st.lists(asked, max_size=5), min_size=1, max_size=4)


def spec(number, devices):
    return MachineSpec(
        name=f"n{number}", devices=devices, device_memory_bytes=80_000, cpu_milli=64_000,
        memory_bytes=2**40, tasks_max=100,
    )  # fmt: skip


def queue(name, age, ration):
    quota, limit, weight = ration
    gpu = Ration(quota=quota * 1000, limit=limit * 1000 if limit > 0 else -1, weight=weight)
    return QueueSpec(queue=name, parent="all", age=age, rations=(gpu, PLENTY, PLENTY))


def tree(ads, vision):
    top = QueueSpec(queue="all", rations=(PLENTY, PLENTY, PLENTY))
    return {"all": top, "ads": queue("ads", 1, ads), "vision": queue("vision", 2, vision)}


def gang_of(number, one):
    project, tasks, surplus, milli, priority, preemptible = one
    role = Role(name="default", minimum=max(1, tasks - surplus))
    gang = Gang(
        name=f"g{number}", queue=project, root=Group(roles=(role,)), priority=priority,
        preemptible=preemptible, age=number, submitted_at_us=number,
    )  # fmt: skip
    whole, share = divmod(milli, 1000)
    shape = Shape(devices=whole or 1, device_milli=share or 1000)
    for rank in range(tasks):
        gang.add(Task(name=f"g{number}-{rank}", gang=gang.name, shape=shape, rank=rank))
    return gang


def after(old):
    """The gang at the next turn: what was bound runs, what was evicted or promised waits."""
    gang = Gang(
        name=old.name, queue=old.queue, root=old.root, priority=old.priority,
        preemptible=old.preemptible, age=old.age, submitted_at_us=old.submitted_at_us,
    )  # fmt: skip
    for task in old.all_tasks():
        runs = task.state in (gangs.BOUND, gangs.RUNNING)
        gang.add(
            Task(
                name=task.name, gang=gang.name, shape=task.shape, rank=task.rank,
                state=gangs.RUNNING if runs else gangs.PENDING,
                place=task.place if runs else None,
            )
        )  # fmt: skip
    if gang.any_in((gangs.RUNNING,)):
        gang.started_at_us = 1
    return gang


def states_of(world):
    return {
        task.name: (task.state, task.coming or task.place)
        for gang in world.gangs.values()
        for task in gang.all_tasks()
    }


def check(world, before):
    check_devices(world)
    check_gangs(world, before)
    check_limits(world)


def check_devices(world):
    """Nothing is given that somebody has, nor before whoever was evicted has gone."""
    used = Counter()
    for gang in world.gangs.values():
        for task in gang.all_tasks():
            if task.state in ON_DEVICES or task.place is not None:
                for device in task.place.devices:
                    used[task.place.node, device] += task.place.milli
    assert all(milli <= 1000 for milli in used.values()), used
    assert all(device < world.machines[node].spec.devices for node, device in used)


def check_gangs(world, before):
    """All of a gang's minimum or nothing; only what may be evicted is."""
    for gang in world.gangs.values():
        placed = gang.count("default", gangs.PLACED)
        assert placed == 0 or placed >= gang.roles[0].minimum
        evicted = [t for t in gang.all_tasks() if before[t.name][0] == gangs.RUNNING]
        if not gang.preemptible:
            assert all(task.state == gangs.RUNNING for task in evicted)


def check_limits(world):
    for name, account in world.accounts.by_name.items():
        limit = account.spec.rations[0].limit
        held = sum(
            (task.coming or task.place).amounts[0]
            for gang in world.gangs.values()
            if gang.queue == name
            for task in gang.all_tasks()
            if task.state in gangs.PLACED
        )
        assert limit == -1 or held <= limit


def play(devices, queues, arriving, *, backwards=False):
    """The states after each turn; gangs and machines given in one order or the other."""
    there, seen, number = [], [], 0
    for turn, arrived in enumerate(arriving, 1):
        for one in arrived:
            number += 1
            there.append(gang_of(number, one))
        step = -1 if backwards else 1
        specs = [spec(n, d) for n, d in enumerate(devices)][::step]
        world = World(specs, queues, there[::step], now_us=turn * TURN_US)
        before = states_of(world)
        take_turn(world)
        check(world, before)
        seen.append(states_of(world))
        there = [after(gang) for gang in there]
    return seen


@given(devices=machines, ads=rations, vision=rations, arriving=rounds)
@settings(max_examples=150, deadline=None)
def test_every_turn_keeps_its_promises_in_whatever_order_it_is_told(devices, ads, vision, arriving):
    queues = tree(ads, vision)
    assert play(devices, queues, arriving) == play(devices, queues, arriving, backwards=True)


def test_a_queue_within_its_quota_takes_back_what_another_borrowed():
    borrowed = [("ads", 1, 0, 2000, 50, True), ("ads", 1, 0, 2000, 50, True)]
    entitled = [("vision", 1, 0, 2000, 50, True)]
    first, second = play([4], tree((2, -1, 1), (2, -1, 1)), [borrowed, entitled])
    assert {state for state, _ in first.values()} == {gangs.BOUND}
    assert second["g1-0"][0] == gangs.RUNNING
    assert second["g2-0"][0] == gangs.EVICTED, "the younger one goes"
    assert second["g3-0"][0] == gangs.PIPELINED


def test_nobody_is_evicted_from_within_a_quota():
    within = [("ads", 1, 0, 2000, 20, True)]
    _, second = play(
        [2], tree((2, -1, 1), (2, -1, 1)), [within, [("vision", 1, 0, 2000, 80, True)]]
    )
    assert (second["g1-0"][0], second["g2-0"][0]) == (gangs.RUNNING, gangs.PENDING)


def test_the_more_important_job_of_a_queue_goes_first():
    low, high = [("ads", 1, 0, 2000, 20, True)], [("ads", 1, 0, 2000, 80, True)]
    _, second = play([2], tree((2, -1, 1), (0, -1, 1)), [low, high])
    assert (second["g1-0"][0], second["g2-0"][0]) == (gangs.EVICTED, gangs.PIPELINED)
