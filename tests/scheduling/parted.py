"""Machines, queues and gangs in trees that name parts of the fleet."""

from headrace.scheduling import gangs
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.parts import PartRation, pool_part, type_part
from headrace.scheduling.world import World

PLENTY = Ration(quota=-1)
H100, A100, TRAIN = type_part("H100"), type_part("A100"), pool_part("train")
BIG = 10**9


def queue(name, *, quota=0, age=0, parent="", **parts):
    """A queue with (quota, limit) of parts, in GPUs; limit -1: none."""
    return QueueSpec(
        queue=name,
        parent=parent,
        age=age,
        rations=(Ration(quota=quota * 1000), PLENTY, PLENTY),
        parts={PARTS[part]: rationed(*said) for part, said in parts.items()},
    )


PARTS = {"h100": H100, "a100": A100, "train": TRAIN}


def rationed(quota, limit=-1):
    return PartRation(
        quota=quota * 1000,
        limit=limit * 1000 if limit >= 0 else -1,
        firm_limit=quota * 1000 or -1,
    )


def machine(name, model, devices=8, pool=""):
    return MachineSpec(
        name=name, devices=devices, model=model, cpu_milli=BIG, pool=pool, labels={"pool": pool}
    )


def gang(name, queue="vision", *, tasks=1, devices=1, model="", pool="", options=(), firm=False):
    shapes = [shape(devices, *one) for one in options] or [shape(devices, model, pool)]
    made = Gang(
        name=name,
        queue=queue,
        root=Group(roles=(Role(name="default", minimum=tasks),)),
        preemptible=not firm,
        age=int(name[1:]),
        options=tuple((one,) for one in shapes) if options else (),
    )
    for rank in range(tasks):
        made.add(Task(name=f"{name}-{rank}", gang=name, shape=shapes[0], rank=rank))
    return made


def shape(devices, model="", pool=""):
    return Shape(devices=devices, model=model, labels=(("pool", pool),) if pool else ())


def running(name, queue, node, devices, **asks):
    made = gang(name, queue, devices=len(devices), **asks)
    (task,) = made.all_tasks()
    amounts = (1000 * len(devices), 0, 0)
    task.place = Place(node=node, amounts=amounts, devices=tuple(devices), milli=1000)
    made.move(task, gangs.RUNNING)
    return made


def world(specs, queues, there):
    return World(specs, {one.queue: one for one in queues}, there, now_us=60_000_000)


def where(turn):
    """The nodes of what is placed, by gang."""
    return {
        one.name: [(t.coming or t.place).node for t in one.all_tasks() if t.state in gangs.PLACED]
        for one in turn.gangs.values()
        if one.any_in(gangs.PLACED)
    }


def evicted(turn):
    return sorted(one.name for one in turn.gangs.values() if one.any_in((gangs.EVICTED,)))
