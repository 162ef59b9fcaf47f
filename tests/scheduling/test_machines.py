"""One machine's books: what is held, beside devices that take no work any more."""

import pytest

from headrace.scheduling.banks import HELD, Kind
from headrace.scheduling.gangs import Place, Shape
from headrace.scheduling.machines import Machine, MachineSpec

KIND = Kind(model="H100-80GB", memory_bytes=80, profile="")


@pytest.mark.parametrize("failed", [0, 1])
def test_what_is_held_beside_a_failed_device_is_booked_and_given_back(failed):
    kinds = tuple(None if device == failed else KIND for device in range(3))
    machine = Machine(
        MachineSpec(name="n1", devices=3, kinds=kinds, cpu_milli=1000, memory_bytes=1000)
    )
    place = Place(node="n1", amounts=(2000, 0, 0), devices=(0, 1), milli=1000)
    two = Shape(devices=2)
    machine.book(place, HELD)
    assert (machine.free_milli, machine.fit(two)) == (1000, None)
    machine.book(place, HELD, -1)
    assert machine.free_milli == 2000
    assert machine.fit(two) is not None
