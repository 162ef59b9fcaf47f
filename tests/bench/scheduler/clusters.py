"""Clusters to measure on: machines of 8 GPUs in racks, two queues, and gangs of a few shapes.

Rule: everything follows from the sizes given; nothing is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle

from headrace.placement.modelling import SECOND_US, STEPS_MAX
from headrace.placement.state import CONSOLIDATE_AFTER_S
from headrace.scheduling.amounts import UNLIMITED
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import RUNNING, Constraint, Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.settings import Settings
from headrace.scheduling.world import World

GPUS = 8
RACK = 9  # machines
MIX = ((1, 1, 1000), (8, 1, 1000), (1, 8, 1000), (1, 1, 500), (8, 8, 1000), (1, 1, 250))
LEVELS = {"fabric": ("rack",)}
WIDE_RACK = 12  # machines
OLD_US, YOUNG_US, SAFE_US = 0, 7_200_000_000, 3_600_000_000


def machines(many: int, rack: int = RACK) -> list[MachineSpec]:
    """So many machines, all alike."""
    return [
        MachineSpec(
            name=f"node-{index:05}",
            devices=GPUS,
            device_memory_bytes=80_000,
            cpu_milli=128_000,
            memory_bytes=1 << 40,
            labels={"rack": f"rack-{index // rack:04}"},
        )
        for index in range(many)
    ]


def queues(*, quota_milli: int = 0) -> dict[str, QueueSpec]:
    """One queue with that guarantee and one without any, both with equal weight."""
    free = Ration(quota=UNLIMITED)
    return {
        "ours": QueueSpec(queue="ours", age=0, rations=(Ration(quota=quota_milli), free, free)),
        "theirs": QueueSpec(queue="theirs", age=1, rations=(Ration(), free, free)),
    }


def world(many: int, gangs: Iterable[Gang], *, quota_milli: int = 0) -> World:
    """A cluster at the beginning of a turn."""
    settings = Settings(levels=LEVELS)
    return World(machines(many), queues(quota_milli=quota_milli), gangs, settings=settings)


def gang(
    name: str,
    *,
    workers: int,
    devices: int,
    milli: int = 1000,
    queue: str = "theirs",
    age: int = 0,
    rack: bool = False,
) -> Gang:
    """A gang of equal workers that all have to run; within one rack if asked."""
    shape = Shape(devices=devices, device_milli=milli, cpu_milli=1000 * devices, memory_bytes=1)
    constraint = Constraint(topology="fabric", required="rack") if rack else None
    root = Group(roles=(Role(name="worker", minimum=workers),), constraint=constraint)
    made = Gang(name=name, queue=queue, root=root, age=age, tasks={}, counts={})
    for rank in range(workers):
        made.add(Task(name=f"{name}.{rank:03}", gang=name, shape=shape, role="worker", rank=rank))
    return made


def mix(gpus: int) -> Iterator[Gang]:
    """Gangs of 1, 8 and 64 GPUs and fractions, together just as many GPUs as given."""
    left = gpus * 1000
    for age, (workers, devices, milli) in enumerate(cycle(MIX)):
        name, queue = f"gang-{age:06}", "ours" if age % 2 else "theirs"
        asked = workers * devices * milli
        if asked > left:
            rest, last = divmod(left, 1000)
            if rest:
                yield gang(name, workers=rest, devices=1, queue=queue, age=age)
            if last:
                yield gang(f"{name}-last", workers=1, devices=1, milli=last, queue=queue, age=age)
            return
        left -= asked
        yield gang(name, workers=workers, devices=devices, milli=milli, queue=queue, age=age)


def torn(many: int, taker: Gang) -> World:
    """A quarter of every machine is free; a third of what runs could be taken back, a third has run
    for too short a time for that, and a third is within its queue's quota. Settings as placement's.
    """
    specs, free = machines(many, WIDE_RACK), Ration(quota=UNLIMITED)
    quotas = {"ours": 80_000, "theirs": 0, "kept": many * GPUS * 1000}
    tree = {
        name: QueueSpec(
            queue=name,
            age=age,
            rations=(Ration(quota=quota), free, free),
            reclaim_after_us=SAFE_US,
        )
        for age, (name, quota) in enumerate(quotas.items())
    }
    gangs = [taker]
    for index, spec in enumerate(specs):
        queue, started_us = (
            ("theirs", OLD_US), ("theirs", YOUNG_US), ("kept", OLD_US)
        )[index % 3]  # fmt: skip
        gangs.append(running(index, spec, queue, started_us, devices=GPUS * 3 // 4))
    taker.submitted_at_us = YOUNG_US
    consolidate_after_us = CONSOLIDATE_AFTER_S * SECOND_US
    settings = Settings(
        levels=LEVELS, steps_max=STEPS_MAX, consolidate_after_us=consolidate_after_us
    )
    return World(specs, tree, gangs, now_us=YOUNG_US + 1, settings=settings)


def running_everywhere(many: int) -> Iterator[Gang]:
    """On every machine one gang that has all of it."""
    return (running(index, spec) for index, spec in enumerate(machines(many)))


def running(
    index: int,
    spec: MachineSpec,
    queue: str = "theirs",
    started_us: int | None = None,
    devices: int = GPUS,
) -> Gang:
    """A gang that has so many GPUs of a machine."""
    made = gang(f"holder-{index:05}", workers=1, devices=devices, queue=queue, age=index)
    made.started_at_us = started_us
    for task in made.all_tasks():
        amounts = task.shape.amounts(spec.device_memory_bytes)
        task.place = Place(
            node=spec.name, amounts=amounts, devices=tuple(range(devices)), milli=1000
        )
        made.move(task, RUNNING)
    return made
