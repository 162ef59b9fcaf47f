"""Headrace's own placement in the trace's protocol, through the core that the services use."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import Gang, Group, Role, Shape, Task
from headrace.scheduling.machines import DEVICE_MILLI, MachineSpec
from headrace.scheduling.placing import place_gang
from headrace.scheduling.world import Settings, World

from .workload import Machine, Pod

MIB = 2**20
QUEUE = "trace"
ROLE = Role(name="default", minimum=1)
ROOT = Group(roles=(ROLE,))
UNLIMITED = Ration(quota=-1)


class Ours:
    """The cluster under one of our policies."""

    def __init__(self, machines: Sequence[Machine], policy: str = "fragmentation") -> None:
        queue = QueueSpec(queue=QUEUE, rations=(UNLIMITED, UNLIMITED, UNLIMITED))
        specs, settings = [_spec(machine) for machine in machines], Settings(policy=policy)
        self._world = World(specs, {QUEUE: queue}, [], settings=settings)
        self._arrivals = Arrivals()
        self._shapes: dict[Pod, list[Shape]] = {}

    def place(self, pod: Pod) -> bool:
        """Learn of the pod, then place it if it fits anywhere."""
        self._arrivals.add(pod.milli, pod.cpu_milli)
        if self._arrivals.tell:
            self._world.learn(self._arrivals)
        shapes = self._shapes.get(pod)
        if shapes is None:
            shapes = self._shapes[pod] = _shapes(pod)
        return any(self._place(shape) for shape in shapes)

    def free(self) -> list[tuple[int, list[int]]]:
        """Of each node in order: free cores in thousandths, and what is free of each device."""
        return [
            (
                machine.free_later[1],
                [machine.free_on(device)[1] for device in range(machine.spec.devices)],
            )
            for machine in self._world.machines.values()
        ]

    def _place(self, shape: Shape) -> bool:
        name = f"pod-{len(self._world.gangs)}"
        gang = self._world.gangs[name] = Gang(name=name, queue=QUEUE, root=ROOT)
        gang.add(Task(name=name, gang=name, shape=shape))
        return place_gang(self._world, gang, promised=False)


def _spec(machine: Machine) -> MachineSpec:
    return MachineSpec(
        name=machine.name,
        devices=machine.gpus,
        model=machine.model,
        cpu_milli=machine.cpu_milli,
        memory_bytes=machine.memory_mib * MIB,
    )


def _shapes(pod: Pod) -> list[Shape]:
    """What the pod asks for: one shape per model, the preferred first."""
    return [
        Shape(
            devices=pod.gpus,
            device_milli=pod.gpu_milli or DEVICE_MILLI,
            model=model,
            cpu_milli=pod.cpu_milli,
            memory_bytes=pod.memory_mib * MIB,
        )
        for model in (pod.gpus and pod.models) or ("",)
    ]
