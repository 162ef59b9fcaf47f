"""Headrace's own placement in the trace's protocol, through the fitting that the services use."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.events.jobs import Accelerator, Gang
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.cluster import DEVICE_MILLI, Device, Node, Scratch
from headrace.scheduling.fitting import Fitting

from .workload import Machine, Pod

MIB = 2**20


class Ours:
    """The cluster under one of our policies."""

    def __init__(self, machines: Sequence[Machine], policy: str = "fragmentation") -> None:
        self._index = {machine.name: place for place, machine in enumerate(machines)}
        self._fitting = Fitting(Scratch({m.name: _node(m) for m in machines}), policy)
        self._arrivals = Arrivals()
        self._gangs: dict[Pod, Gang] = {}

    def place(self, pod: Pod) -> bool:
        """Learn of the pod, then place it if it fits anywhere."""
        self._arrivals.add(pod.milli, pod.cpu_milli)
        if self._arrivals.tell:
            self._fitting.learn(self._arrivals)
        gang = self._gangs.get(pod)
        if gang is None:
            gang = self._gangs[pod] = _gang(pod)
        booking = self._fitting.fit(gang)
        if booking is None:
            return False
        self._fitting.take(booking)
        return True

    def free(self) -> list[tuple[int, list[int]]]:
        """Of each node in order: free cores in thousandths, and what is free of each device."""
        nodes = [self._fitting.scratch.node(name) for name in self._index]
        return [
            (
                node.cpu_milli - node.cpu_used_milli,
                [DEVICE_MILLI - device.used_milli for device in node.devices],
            )
            for node in nodes
        ]


def _node(machine: Machine) -> Node:
    devices = [
        Device(device=f"{machine.name}/{index}", index=index, model=machine.model, memory_bytes=1)
        for index in range(machine.gpus)
    ]
    return Node(
        node=machine.name,
        devices=devices,
        cpu_milli=machine.cpu_milli,
        memory_bytes=machine.memory_mib * MIB,
    )


def _gang(pod: Pod) -> Gang:
    wanted = [Accelerator(milli=pod.milli, model=model) for model in pod.models or ("",)]
    return Gang(
        accelerators=tuple(wanted) if pod.gpus else (),
        cpu_milli=pod.cpu_milli,
        memory_bytes=pod.memory_mib * MIB,
    )
