"""One task tried on one machine: what a policy judges.

Rule: the machine stands as it is before the task comes; nothing here changes it.
"""

from __future__ import annotations

import msgspec

from headrace.scheduling.banks import DEVICE_MILLI
from headrace.scheduling.gangs import Place, Shape
from headrace.scheduling.machines import Machine


class Trial(msgspec.Struct, frozen=True, gc=False):
    """The task's shape, the machine, and the place that it would get there. `waits`: not at once,
    but when what is leaving has gone.
    """

    shape: Shape
    machine: Machine
    place: Place
    waits: bool

    @property
    def needs(self) -> tuple[bool, bool, bool]:
        """What every machine is better without: that a share finds no shared device with room, that
        the task has to wait, that it needs none of the machine's GPUs.
        """
        shape = self.shape
        room = shape.is_shared and self.machine.has_shared_room(shape)
        return (not room, self.waits, self.strays)

    @property
    def strays(self) -> bool:
        """Whether the task has no use for the machine's GPUs."""
        return not self.shape.devices and bool(self.machine.spec.devices)

    @property
    def free(self) -> tuple[int, int]:
        """What is free of the scarcest thing the task needs, GPUs or else cores, in thousandths of
        one, and how many GPUs or thousandths of cores there are.
        """
        machine = self.machine
        if self.shape.devices:
            return machine.free_milli, machine.spec.devices
        return machine.free_later[1], machine.spec.cpu_milli

    @property
    def taken(self) -> list[tuple[int, int]]:
        """Of each device that the task would get, the thousandths free and those it would take."""
        place, machine = self.place, self.machine
        wholes = place.count or (place.milli == DEVICE_MILLI and len(place.devices))
        if wholes:
            return [(DEVICE_MILLI, DEVICE_MILLI)] * wholes
        return [(machine.free_on(device)[1], place.milli) for device in place.devices]
