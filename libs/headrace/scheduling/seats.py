"""Placing a gang where it was promised to be.

Rule: seats name devices only where those are shared; of whole ones a seat says how many, and of
which kind. Who comes before its moment must be in nobody's way.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.scheduling.banks import COMING
from headrace.scheduling.gangs import Gang, Place, Shape, Task
from headrace.scheduling.permits import is_allowed
from headrace.scheduling.world import World


def take_seats(world: World, gang: Gang, tasks: Sequence[Task]) -> bool:
    """Place a gang as its reservation says, once it has begun or earlier if that delays nobody;
    shared devices first as those are named.
    """
    reservation = world.reservations.get(gang.name)
    if reservation is None:
        return False
    seats = {seat.task: seat.place for seat in reservation.seats}
    if any(task.name not in seats for task in tasks):
        return False
    for task in sorted(tasks, key=lambda task: (not task.shape.is_shared, task.name)):
        found = _seated(world, gang, task.shape, seats[task.name])
        if not (
            found and is_allowed(world, task, found[0]) and world.may_take_seat(task, found[0])
        ):
            return False
        world.place(task, found[0], at_once=found[1])
    return True


def _seated(world: World, gang: Gang, shape: Shape, seat: Place) -> tuple[Place, bool] | None:
    """The place at a seat, and whether it could be taken at once; None when it is not free. Whole
    devices are rather others than those of which shares are promised.
    """
    machine = world.machines[seat.node]
    shared = () if shape.is_shared else world.shared_by_others(gang, seat.node)
    for place in shared:
        machine.book(place, COMING)
    found = machine.fit(shape)
    for place in reversed(shared):
        machine.book(place, COMING, -1)
    if found is None or not found[1]:
        found = machine.fit(shape)
    if found is None or found[0].amounts != seat.amounts:
        return None
    if not shape.is_shared or not machine.still_fits(seat):
        return found
    return seat, found[1] and all(machine.free_on(d)[0] >= seat.milli for d in seat.devices)


def to_come(world: World, shape: Shape, place: Place) -> Place:
    """The place as a promise: of whole devices only how many."""
    if not place.devices or shape.is_shared:
        return place
    banks = enumerate(world.machines[place.node].banks)
    bank = next(number for number, bank in banks if place.devices[0] in bank.devices)
    return Place(node=place.node, amounts=place.amounts, count=shape.devices, bank=bank)
