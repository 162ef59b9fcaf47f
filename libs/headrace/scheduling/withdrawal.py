"""Why a reservation stands no more: what it was made on has changed.

Rule: nothing that other gangs do withdraws a reservation, for every one of them leaves it its room.
Only a machine that has gone or become smaller, a limit below what the gang asks for, or a topology
that its seats do not have any more does; or the gang itself, when it waits no longer, or when it is
to move there and has not left by then where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headrace.scheduling.amounts import GPU, UNLIMITED, at_most, total
from headrace.scheduling.claims import Reservation
from headrace.scheduling.eligibility import asked_by, is_eligible
from headrace.scheduling.gangs import (
    ALIVE,
    BELOW,
    PENDING,
    RELEASING,
    Gang,
    Place,
    Task,
    is_ready,
    next_tasks,
)
from headrace.scheduling.machines import Machine
from headrace.scheduling.topology import domain_of
from headrace.scheduling.world import World


def keep(world: World, reservations: Mapping[str, Reservation]) -> dict[str, str]:
    """Have the world keep all of these that can be kept; of the others, by gang, why they cannot.
    Called when nothing of a turn has been decided yet.
    """
    names = sorted(reservations)
    reasons = {name: reason_of(world, reservations[name]) for name in names}
    world.reserve_for({name: reservations[name] for name in names if not reasons[name]})
    return {name: reason for name, reason in reasons.items() if reason}


def reason_of(world: World, reservation: Reservation) -> str:
    """Why this reservation cannot be kept any more; empty when it can."""
    gang = world.gangs.get(reservation.gang)
    if gang is None or not (waits(gang) or leaves(gang)):
        return "not-waiting"
    if leaves(gang) and reservation.at_us < world.now_us:
        return "not-gone"
    if gang.queue not in world.accounts:
        return "queue-gone"
    seats = {seat.task: seat.place for seat in reservation.seats}
    tasks = next_tasks(gang, again=False)
    if any(task.name not in seats for task in tasks):
        return "grown"
    return why_not_at(world, gang, tasks or list(gang.all_tasks()), list(seats.values()))


def why_not_at(world: World, gang: Gang, tasks: Sequence[Task], places: Sequence[Place]) -> str:
    """Why these tasks of the gang cannot be at these places, whoever else is there; empty when they
    can.
    """
    machines = [world.machines.get(place.node) for place in places]
    if any(machine is None or not machine.spec.accepting for machine in machines):
        return "node-lost"
    there = [machine for machine in machines if machine is not None]
    if not all(_could_seat(world, m, p) for m, p in zip(there, places, strict=True)):
        return "node-smaller"
    if not _is_within_limits(world, gang, places):
        return "limit-lowered"
    return "" if _is_where_asked(world, gang, tasks, there) else "pool-changed"


def leaves(gang: Gang) -> bool:
    """Whether all that the gang has is on its way out: what is reserved for it is where it moves."""
    return gang.any_in((RELEASING,)) and not gang.any_in(ALIVE)


def waits(gang: Gang) -> bool:
    """Whether the gang waits, whole, with enough tasks to be placed."""
    return gang.any_in((PENDING,)) and gang.standing() == BELOW and is_ready(gang, gang.root)


def _could_seat(world: World, machine: Machine, place: Place) -> bool:
    """Whether this place would be there if nothing else was on the machine."""
    known = world.holdable.get(place)
    if known is None:
        known = world.holdable[place] = Machine(machine.spec).still_fits(place)
    return known


def _is_within_limits(world: World, gang: Gang, places: Sequence[Place]) -> bool:
    """Whether the gang could be placed if nobody else was."""
    asked = total(place.amounts for place in places)
    firm = gang.protected_minimum or not gang.preemptible
    stakes: Counter[int] = Counter()
    for place in places:
        stakes.update(dict.fromkeys(world.cell_at(place), place.amounts[GPU]))
    for account in world.accounts.by_name[gang.queue].path:
        bounds = [account.spec.limit]
        if firm:
            bounds.append(account.spec.firm_limit)
        for bound in bounds:
            if any(0 < a > b != UNLIMITED for a, b in zip(asked, bound, strict=True)):
                return False
        for number, milli in stakes.items():
            ration = account.stakes[number].ration
            allowed = at_most(ration.limit, ration.firm_limit) if firm else ration.limit
            if 0 < milli > allowed != UNLIMITED:
                return False
    return True


def _is_where_asked(
    world: World, gang: Gang, tasks: Sequence[Task], machines: Sequence[Machine]
) -> bool:
    """Whether these machines are such as the gang asks for, and as near to each other."""
    roles = dict.fromkeys(task.role for task in tasks)
    shapes = [shape for role in roles for shape in asked_by(gang, role)]
    if not all(any(is_eligible(shape, machine) for shape in shapes) for machine in machines):
        return False
    constraint = gang.root.constraint
    if constraint is None or not constraint.required:
        return True
    levels = world.settings.levels.get(constraint.topology, ())
    if constraint.required not in levels:
        return False
    depth = levels.index(constraint.required) + 1
    domains = {domain_of(machine.spec, levels)[:depth] for machine in machines}
    return len(domains) == 1 and all(len(domain) == depth for domain in domains)
