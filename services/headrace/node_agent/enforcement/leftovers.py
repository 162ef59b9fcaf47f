"""Devices that somebody holds memory on who is of no job here: such a device is not offered.

Rule: pure but for what it remembers of earlier looks. A device that a worker here has, or has just
had, is not asked about: its driver may still be giving back what that worker held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from headrace.events.nodes import Device
from headrace.node_agent.devices import Sample

BYTES_MIN = 64 * 2**20  # less is what displays and monitors hold
REST_LOOKS = 3  # after its last worker has ended


class Leftovers:
    """One node's. `name_of` tells what the process of a pid is called."""

    def __init__(self, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        self._resting: dict[str, int] = {}

    def marked(
        self, devices: Iterable[Device], samples: Iterable[Sample], booked: Collection[str]
    ) -> tuple[Device, ...]:
        """The devices, those that are held by strangers with that as their fault."""
        resting = {name: looks - 1 for name, looks in self._resting.items() if looks > 1}
        self._resting = resting | dict.fromkeys(booked, REST_LOOKS)
        faults = {s.device: self._fault(s) for s in samples if s.device not in self._resting}
        return tuple(
            msgspec.structs.replace(device, healthy=False, fault=faults[device.device])
            if device.healthy and faults.get(device.device)
            else device
            for device in devices
        )

    def _fault(self, sample: Sample) -> str:
        """No figures in it: they change all the time, and the node would be told anew each time."""
        for pid, held_bytes in sorted(sample.processes):
            if held_bytes >= BYTES_MIN:
                return (
                    f"process {pid} ({self._name_of(pid)}) holds memory on it and is of no job here"
                )
        return ""
