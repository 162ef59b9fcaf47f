"""Headrace's own placement in the trace's protocol, through the core that the services use."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.banks import DEVICE_MILLI
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import Gang, Group, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.placing import choices, place_gang
from headrace.scheduling.settings import Settings
from headrace.scheduling.world import World

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
        self._shapes: dict[Pod, tuple[Shape, ...]] = {}

    def place(self, pod: Pod) -> bool:
        """Learn of the pod, then place it if it fits anywhere."""
        self._arrivals.add(pod.milli, pod.cpu_milli)
        if self._arrivals.tell:
            self._world.learn(self._arrivals)
        shapes = self._shapes.get(pod)
        if shapes is None:
            shapes = self._shapes[pod] = _shapes(pod)
        world, name = self._world, f"pod-{self._arrivals.number}"
        gang = Gang(name=name, queue=QUEUE, root=ROOT, options=tuple((one,) for one in shapes))
        gang.add(Task(name=name, gang=name, shape=shapes[0]))
        world.enter(gang)
        if any(place_gang(world, gang, promised=False) for _ in choices(world, gang)):
            return True
        world.leave(name)
        return False

    def free(self) -> list[tuple[int, list[int]]]:
        """Of each node in order: free cores in thousandths, and what is free of each device."""
        return [
            (
                machine.free_later[1],
                [machine.free_on(device)[1] for device in range(machine.spec.devices)],
            )
            for machine in self._world.machines.values()
        ]


def _spec(machine: Machine) -> MachineSpec:
    return MachineSpec(
        name=machine.name,
        devices=machine.gpus,
        model=machine.model,
        cpu_milli=machine.cpu_milli,
        memory_bytes=machine.memory_mib * MIB,
    )


def _shapes(pod: Pod) -> tuple[Shape, ...]:
    """What the pod asks for: one shape per model, the preferred first."""
    return tuple(
        Shape(
            devices=pod.gpus,
            device_milli=pod.gpu_milli or DEVICE_MILLI,
            model=model,
            cpu_milli=pod.cpu_milli,
            memory_bytes=pod.memory_mib * MIB,
        )
        for model in (pod.gpus and pod.models) or ("",)
    )
