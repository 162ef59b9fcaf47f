"""Who gets a reservation, and for when.

Rule: a gang that has waited long enough is told a moment at which it has its room even if everybody
runs for as long as they may: the earliest one at which it fits. Higher priority first, and waiting
raises it; of gangs alike in one queue only the first. What was reserved never moves later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from headrace.scheduling.gangs import (
    BELOW,
    EVICTED,
    PENDING,
    PLACED,
    RELEASING,
    Gang,
    is_ready,
    next_tasks,
)
from headrace.scheduling.horizon import Reservation, Seat
from headrace.scheduling.placing import place_gang, to_come
from headrace.scheduling.ranking import could_hold
from headrace.scheduling.refused import kind_of
from headrace.scheduling.topology import could_gather
from headrace.scheduling.world import World

Events = list[tuple[int, list[Callable[[], None]]]]


def renewed(world: World, reservations: Mapping[str, Reservation]) -> dict[str, Reservation]:
    """The reservations that still stand, and those of gangs that have waited long enough by now;
    the world keeps them from here on. Called at the beginning of a turn.
    """
    kept = {name: reservations[name] for name in sorted(reservations)}
    kept = {name: one for name, one in kept.items() if stands(world, one)}
    world.reserve_for(kept)
    kinds = {kind_of(world.gangs[name]) for name in kept}
    for gang in _aged(world):
        if len(kept) >= world.settings.reservations_max:
            break
        if kind_of(gang) in kinds:
            continue
        kinds.add(kind_of(gang))
        found = reserve(world, gang)
        if found is not None:
            kept = {**kept, gang.name: found}
            world.reserve_for(kept)
    return kept


def improved(world: World, reservations: Mapping[str, Reservation]) -> dict[str, Reservation]:
    """The same reservations, those earlier that can be because others ended before they had to."""
    for name in sorted(reservations):
        found = reserve(world, world.gangs[name])
        if found is not None and found.at_us < reservations[name].at_us:
            reservations = {**reservations, name: found}
            world.reserve_for(reservations)
    return dict(reservations)


def stands(world: World, reservation: Reservation) -> bool:
    """Whether the gang still waits for these seats and their machines are still there."""
    gang = world.gangs.get(reservation.gang)
    if gang is None or not _waits(gang):
        return False
    seats = {seat.task: seat.place.node for seat in reservation.seats}
    machines = (world.machines.get(node) for node in seats.values())
    if any(machine is None or not machine.spec.accepting for machine in machines):
        return False
    return all(task.name in seats for task in next_tasks(gang, again=False))


def reserve(world: World, gang: Gang) -> Reservation | None:
    """The earliest moment at which the gang fits and its queue is not above its share, if all that
    is held is held to the last and other reservations are kept; None: at no moment.
    """
    tasks = next_tasks(gang, again=False)
    possible = all(could_hold(world, task.shape) for task in tasks)
    if not tasks or not possible or not could_gather(world, gang, tasks):
        return None
    mark = world.mark()
    ahead = _Ahead(world, gang)
    found = ahead.earliest()
    world.back_to(mark)
    if found is None:
        return None
    at_us, seats = found
    return Reservation(gang=gang.name, at_us=at_us, made_at_us=world.now_us, seats=seats)


class _Ahead:
    """The world at the moments to come at which somebody ends."""

    def __init__(self, world: World, gang: Gang) -> None:
        self._world = world
        self._gang = gang
        self._events = _events(world, gang)
        self._marks: list[int] = []  # before each moment that has been entered

    def earliest(self) -> tuple[int, tuple[Seat, ...]] | None:
        """Search with growing steps, then halve: more is free at every later moment."""
        low, high, step, last = -1, 0, 1, len(self._events) - 1
        seats = self._seats_at(high)
        while seats is None:
            if high == last:
                return None
            low, high, step = high, min(last, high + step), step * 2
            seats = self._seats_at(high)
        while high - low > 1:
            middle = (low + high) // 2
            found = self._seats_at(middle)
            if found is None:
                low = middle
            else:
                high, seats = middle, found
        return self._events[high][0], seats

    def _seats_at(self, moment: int) -> tuple[Seat, ...] | None:
        """Where the gang would go then."""
        world, gang = self._world, self._gang
        self._enter(moment)
        if any(account.is_over_share() for account in world.accounts.by_name[gang.queue].path):
            return None
        mark = world.mark()
        world.go_to(self._events[moment][0])
        tasks = next_tasks(gang, again=False)
        seats = None
        if place_gang(world, gang, promised=True):
            seats = tuple(
                Seat(task=task.name, place=to_come(task.shape, place))
                for task in tasks
                if (place := task.coming or task.place) is not None
            )
        world.back_to(mark)
        return seats

    def _enter(self, moment: int) -> None:
        if len(self._marks) > moment + 1:
            self._world.back_to(self._marks[moment + 1])
            del self._marks[moment + 1 :]
        while len(self._marks) <= moment:
            changes = self._events[len(self._marks)][1]
            self._marks.append(self._world.mark())
            for change in changes:
                change()


def _events(world: World, gang: Gang) -> Events:
    """What ends and begins at each moment from now on: first those who end, then reservations. What
    is being released counts as gone at the first moment.
    """
    leaving = any(other.any_in((RELEASING, EVICTED)) for other in world.gangs.values())
    first_us = world.now_us + (world.settings.release_us if leaving else 0)
    timed: list[tuple[int, int, str, Callable[[], None]]] = []
    for other in world.gangs.values():
        if other is gang:
            continue
        for task in other.all_tasks():
            if task.state in PLACED:
                ends_us = world.ends_at_us(other, task.state)
                timed.append((ends_us, 0, task.name, partial(world.evict, task)))
        reservation = world.reservations.get(other.name)
        if reservation is not None:
            claim = world.claim(other, reservation)
            timed.append((claim.until_us, 1, other.name, partial(world.set_aside, claim, -1)))
            timed.append((claim.from_us, 2, other.name, partial(world.set_aside, claim)))
    moments: dict[int, list[Callable[[], None]]] = {first_us: []}
    for at_us, _, _, change in sorted(timed, key=lambda one: one[:3]):
        moments.setdefault(max(first_us, at_us), []).append(change)
    return sorted(moments.items(), key=lambda one: one[0])


def _aged(world: World) -> Iterator[Gang]:
    """Gangs that have waited long enough, those first whose priority and patience add up to most."""
    after_us = world.settings.reserve_after_us

    def key(gang: Gang) -> tuple[int, int, str]:
        waited_us = world.now_us - gang.submitted_at_us
        return (-gang.priority - waited_us // max(1, after_us), gang.age, gang.name)

    waiting = (
        gang
        for gang in world.gangs.values()
        if _waits(gang)
        and gang.queue in world.accounts
        and gang.name not in world.reservations
        and world.now_us - gang.submitted_at_us >= after_us
    )
    yield from sorted(waiting, key=key)


def _waits(gang: Gang) -> bool:
    return gang.any_in((PENDING,)) and gang.standing() == BELOW and is_ready(gang, gang.root)
