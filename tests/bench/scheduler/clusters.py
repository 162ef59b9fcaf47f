"""Clusters to measure on: machines of 8 GPUs in racks, two queues, and gangs of a few shapes.

Rule: everything follows from the sizes given; nothing is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle

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


def machines(many: int) -> list[MachineSpec]:
    """So many machines, all alike, nine in a rack."""
    return [
        MachineSpec(
            name=f"node-{index:05}",
            devices=GPUS,
            device_memory_bytes=80_000,
            cpu_milli=128_000,
            memory_bytes=1 << 40,
            labels={"rack": f"rack-{index // RACK:04}"},
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


def running_everywhere(many: int) -> Iterator[Gang]:
    """On every machine one gang that has all of it."""
    for index, spec in enumerate(machines(many)):
        made = gang(f"holder-{index:05}", workers=1, devices=GPUS, age=index)
        for task in made.all_tasks():
            amounts = task.shape.amounts(spec.device_memory_bytes)
            devices = tuple(range(GPUS))
            task.place = Place(node=spec.name, amounts=amounts, devices=devices, milli=1000)
            made.move(task, RUNNING)
        yield made
