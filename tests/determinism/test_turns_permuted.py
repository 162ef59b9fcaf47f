"""A turn of the scheduling core comes to the same whatever the order in which it is told of things.

Rule: machines, queues, gangs and tasks come in a drawn order. Ages, ranks and sizes are often the
same, so that only a total order decides alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduling.actions import take_turn
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import BOUND, RUNNING, Constraint, Gang, Group, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.settings import Settings
from headrace.scheduling.world import World

PLENTY = Ration(quota=-1, limit=-1, weight=1)
QUEUES = ("ads", "speech", "vision")
LEVELS = {"room": ("zone", "rack")}
NEARNESS = (
    None,
    Constraint(topology="room", required="rack"),
    Constraint(topology="room", preferred="rack"),
    Constraint(topology="room", required="zone", preferred="rack"),
)
TURN_US = 120_000_000

machines = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5)
rations = st.tuples(st.integers(0, 3), st.sampled_from((-1, 2, 4)), st.integers(0, 2))
asked = st.tuples(
    st.sampled_from(QUEUES),
    st.integers(1, 3),  # tasks
    st.integers(0, 1),  # of which may be missing
    st.sampled_from((250, 500, 1000, 2000)),
    st.sampled_from((20, 50)),
    st.booleans(),
    st.sampled_from(NEARNESS),
)
rounds = st.lists(st.lists(asked, max_size=4), min_size=2, max_size=4)


def spec_of(number: int, devices: int, rack: int) -> MachineSpec:
    return MachineSpec(
        name=f"n{number}", devices=devices, device_memory_bytes=80 * 2**30, cpu_milli=64_000,
        memory_bytes=2**40, tasks_max=100, labels={"zone": f"z{rack // 2}", "rack": f"r{rack}"},
    )  # fmt: skip


def queue_of(name: str, ration: tuple[int, int, int]) -> QueueSpec:
    quota, limit, weight = ration
    gpu = Ration(quota=quota * 1000, limit=limit * 1000 if limit > 0 else -1, weight=weight)
    return QueueSpec(queue=name, parent="all", age=1, rations=(gpu, PLENTY, PLENTY))


def gang_of(number: int, one: Any, held: dict[str, Any], chance: random.Random) -> Gang:
    """The gang, with what its tasks hold since the last turn."""
    project, tasks, surplus, milli, priority, preemptible, nearness = one
    role = Role(name="default", minimum=max(1, tasks - surplus))
    gang = Gang(
        name=f"g{number}", queue=project, root=Group(roles=(role,), constraint=nearness),
        priority=priority, preemptible=preemptible, age=number // 3,
    )  # fmt: skip
    whole, share = divmod(milli, 1000)
    shape = Shape(devices=whole or 1, device_milli=share or 1000)
    names = [f"g{number}-{rank}" for rank in range(tasks)]
    chance.shuffle(names)
    for name in names:
        place = held.get(name)
        state = {"state": RUNNING, "place": place} if place is not None else {}
        gang.add(Task(name=name, gang=gang.name, shape=shape, **state))
    if gang.any_in((RUNNING,)):
        gang.started_at_us = 1
    return gang


def play(
    drawn: Any, chance: random.Random, plant: Callable[[list[Gang]], None] = lambda _gangs: None
) -> list[dict[str, Any]]:
    """What every task comes to in each turn, things being told in a drawn order. `plant` does
    something to the gangs as they are told.
    """
    sizes, shares, arriving = drawn
    specs = [spec_of(number, *size) for number, size in enumerate(sizes)]
    top = QueueSpec(queue="all", rations=(PLENTY, PLENTY, PLENTY))
    queues = [top, *(queue_of(*pair) for pair in zip(QUEUES, shares, strict=True))]
    there: list[Any] = []
    held: dict[str, Any] = {}
    seen = []
    for turn, arrived in enumerate(arriving, 1):
        there += arrived
        gangs = [gang_of(number, one, held, chance) for number, one in enumerate(there)]
        for told in (specs, queues, gangs):
            chance.shuffle(told)
        plant(gangs)
        tree = {queue.queue: queue for queue in queues}
        plain = Settings(levels=LEVELS)
        world = World(specs, tree, gangs, now_us=turn * TURN_US, settings=plain)
        take_turn(world)
        tasks = sorted((t for g in gangs for t in g.all_tasks()), key=lambda task: task.name)
        seen.append({t.name: (t.state, t.place, t.coming) for t in tasks})
        held = {t.name: t.place for t in tasks if t.state in (BOUND, RUNNING)}
    return seen


@given(
    drawn=st.tuples(machines, st.tuples(rations, rations, rations), rounds),
    seed=st.integers(1, 1_000),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_turn_comes_to_the_same_in_whatever_order_it_is_told(drawn: Any, seed: int) -> None:
    assert play(drawn, random.Random(seed)) == play(drawn, random.Random(-seed - 1))


def _age_as_told(gangs: list[Gang]) -> None:
    for age, gang in enumerate(gangs):
        gang.age = age


def test_an_order_that_decides_is_found() -> None:
    alike = ("ads", 1, 0, 1000, 50, True, None)
    drawn = ([(2, 0)], ((2, -1, 1),) * 3, [[alike] * 4])

    told = [play(drawn, random.Random(seed)) for seed in range(8)]
    planted = [play(drawn, random.Random(seed), _age_as_told) for seed in range(8)]

    assert all(seen == told[0] for seen in told)
    assert any(seen != planted[0] for seen in planted)
