"""Models that contradict themselves: nothing raises, and nothing is given twice."""

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduling import gangs
from headrace.scheduling.actions import take_turn
from headrace.scheduling.banks import DEVICE_MILLI, Kind
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.explain import why_waiting
from headrace.scheduling.gangs import Constraint, Gang, Group, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.reservations import renewed
from headrace.scheduling.settings import Settings
from headrace.scheduling.world import World

NOW_US = 10_000_000_000
slices = Kind(model="H100", memory_bytes=10, profile="1g.10gb")
whole = Kind(model="H100", memory_bytes=80)


def mostly(sane, *odd):
    """The sane value more often than not, so that a model is contradictory here and there only."""
    return st.sampled_from((*(sane,) * (8 * len(odd)), *odd))


rations = st.builds(
    Ration,
    quota=mostly(-1, -4000, 0, 250, 2000),
    limit=mostly(-1, -4000, 0, 2000),
    weight=mostly(1, -2, 0),
)
queues = st.fixed_dictionaries(
    {"a": st.tuples(mostly("", "a", "b", "nobody"), rations, mostly(0, -2, 2), mostly(0, -5, 10**12)),
     "b": st.tuples(mostly("a", "", "b"), rations, mostly(0, -2, 2), mostly(None, -5, 0))},
)  # fmt: skip
machines = st.lists(
    st.tuples(mostly(4, 0, 1), mostly(whole, slices, None), mostly(8000, 0, -1)),
    min_size=1,
    max_size=3,
)
shapes = st.builds(
    Shape,
    devices=mostly(1, -1, 0, 2, 5),
    device_milli=mostly(1000, 300, 1500, 0, -500),
    device_memory_bytes=mostly(0, 40, 500, -1),
    model=mostly("", "H100", "H999"),
    profile=mostly("", "1g.10gb", "9g.999gb"),
    memory_min_bytes=mostly(0, -1, 70),
    memory_max_bytes=mostly(0, -1, 70),
    cpu_milli=mostly(0, 1000, -1000),
    apart=st.booleans(),
)
constraints = mostly(
    None,
    *(Constraint(topology=topology, required=required, preferred=preferred)
      for topology in ("train", "gone") for required in ("", "rack", "orbit")
      for preferred in ("", "rack", "orbit")),
)  # fmt: skip
asked = st.tuples(
    mostly("b", "a", "nobody", ""),
    mostly(2, 0, 1, 3),  # tasks
    mostly(1, 2, 5, 0, -1),  # the role's minimum
    mostly(None, 1, 3, -1),  # the group's
    constraints,
    st.lists(shapes, min_size=1, max_size=2),
    st.booleans(),
    st.integers(-1, 1),
)


def tree(found):
    return {
        name: QueueSpec(
            queue=name, parent=parent, rations=(ration, Ration(quota=-1), Ration(quota=-1)),
            reclaim_after_us=after, preempt_after_us=after,
            evictions_max=evictions, evictions_per_us=-evictions,
        )
        for name, (parent, ration, evictions, after) in found.items()
    }  # fmt: skip


def gang(number, one):
    queue, tasks, minimum, group, constraint, options, preemptible, priority = one
    root = Group(
        roles=(Role(name="default", minimum=minimum, constraint=constraint),), minimum=group
    )
    made = Gang(
        name=f"g{number}", queue=queue, root=root, age=number, preemptible=preemptible,
        priority=priority, options=tuple((one,) for one in options) if len(options) > 1 else (),
    )  # fmt: skip
    for rank in range(tasks):
        made.add(Task(name=f"g{number}-{rank}", gang=made.name, shape=options[0], rank=rank))
    return made


def world(kinds, found, there):
    specs = [
        MachineSpec(
            name=f"n{number}", devices=devices, cpu_milli=cpu, pool="train", labels={"rack": "r"},
            kinds=(kind,) * devices if kind is not None else (), device_memory_bytes=80,
        )
        for number, (devices, kind, cpu) in enumerate(kinds)
    ]  # fmt: skip
    chosen = Settings(levels={"train": ("rack",), "": ()}, steps_max=50)
    return World(specs, tree(found), there, now_us=NOW_US, settings=chosen)


def running(turn):
    """What was bound runs, in gangs as the next turn finds them; all else is forgotten."""
    for was in turn.gangs.values():
        bound = [task for task in was.all_tasks() if task.state == gangs.BOUND]
        if bound:
            made = msgspec.structs.replace(was, tasks={}, counts={}, started_at_us=NOW_US - 1)
            for task in bound:
                made.add(msgspec.structs.replace(task, state=gangs.RUNNING))
            yield made


def check(turn):
    used = Counter()
    for one in turn.gangs.values():
        for task in one.all_tasks():
            if task.place is not None:
                assert min(task.place.amounts) >= 0, "nobody is given less than nothing"
                used.update({(task.place.node, d): task.place.milli for d in task.place.devices})
    for (node, device), milli in used.items():
        assert milli <= DEVICE_MILLI
        assert device < turn.machines[node].spec.devices


@given(
    kinds=machines,
    found=queues,
    rounds=st.lists(st.lists(asked, max_size=5), min_size=1, max_size=3),
)
@settings(max_examples=100, deadline=None)
def test_nothing_raises_and_nothing_is_given_twice(kinds, found, rounds):
    there, number = [], 0
    for waiting in rounds:
        coming = [gang(number + i, one) for i, one in enumerate(waiting)]
        number += len(coming)
        turn = world(kinds, found, [*there, *coming])
        renewed(turn)
        take_turn(turn)
        check(turn)
        for one in turn.gangs.values():
            why_waiting(turn, one)
        there = list(running(turn))
