"""Placing a gang: what it lacks for its minimum or, above that, one more task; all of it or nothing.

Rule: no limit is passed, required topology holds, and when part of a role's minimum has to wait for
what is being released, all that was newly placed waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from headrace.scheduling.accounts import Barrier
from headrace.scheduling.amounts import Amounts, total
from headrace.scheduling.banks import DEVICE_MILLI
from headrace.scheduling.gangs import (
    BOUND,
    EVICTED,
    PENDING,
    PIPELINED,
    PLACED,
    RUNNING,
    Constraint,
    Gang,
    Group,
    Place,
    Role,
    Shape,
    Task,
    next_tasks,
    ordered_members,
    roles_of,
)
from headrace.scheduling.legality import Taker
from headrace.scheduling.part_barriers import barred_cells, part_barrier_of
from headrace.scheduling.permits import is_allowed
from headrace.scheduling.ranking import orders_of, ranked
from headrace.scheduling.seats import take_seats, to_come
from headrace.scheduling.topology import Demand, Where, is_near, node_sets
from headrace.scheduling.world import World


def place_gang(world: World, gang: Gang, *, promised: bool, most: int | None = None) -> bool:
    """Place what the gang asks for next, or the first `most` tasks of it; false: nothing changed.
    `promised`: everything waits for what is being released, and what was evicted may stay. Who
    would have to wait rather takes the seats of its reservation.
    """
    tasks = next_tasks(gang, again=promised)[:most]
    if not tasks or not all(_is_possible(task.shape) for task in tasks):
        return False
    if barrier_of(world, gang, tasks) is not None:
        return False
    mark = world.mark()
    demand = Demand(gang=gang, roles=gang.roles, tasks=tasks)
    anywhere = partial(_place_member, world, gang.root, demand, Where(), promised=promised)
    at_seats = partial(take_seats, world, gang, tasks)
    is_reserved = gang.name in world.reservations and not promised
    placed = _place_by_first(world, gang, (anywhere, at_seats)) if is_reserved else anywhere()
    if not placed:
        world.back_to(mark)
    elif not promised and _must_wait(gang):
        _wait_together(world, tasks)
    return placed


def choices(world: World, gang: Gang) -> Iterator[None]:
    """Let the gang ask for each of its options, the best first, until the caller is content; what
    has a place already stays with what it asked for.
    """
    if not gang.options or gang.any_in((*PLACED, EVICTED)):
        yield
        return
    for option in gang.options:
        mark = world.mark()
        shapes = {role.name: shape for role, shape in zip(gang.roles, option, strict=True)}
        for task in gang.all_tasks():
            if task.state == PENDING and task.shape != shapes[task.role]:
                world.reshape(task, shapes[task.role])
        yield
        world.back_to(mark)


def barrier_of(world: World, gang: Gang, tasks: Sequence[Task]) -> Barrier | None:
    """Which limit or quota the tasks would pass; memory counted in the largest devices there are,
    so that nothing is refused that could be within.
    """
    request = total(task.shape.amounts(world.fleet.memory_max_bytes) for task in tasks)
    firm = any(task.firm for task in tasks)
    found = world.accounts.barrier(gang.queue, request, firm=firm)
    return part_barrier_of(world, gang, tasks) if found is None and world.parted.any else found


def request_of(world: World, gang: Gang, *, again: bool) -> Amounts:
    """What the gang asks for next."""
    return total(world.request_of(task) for task in next_tasks(gang, again=again))


def taker_of(world: World, gang: Gang) -> Taker:
    """What the gang would take next."""
    tasks = next_tasks(gang, again=True)
    request = total(world.request_of(task) for task in tasks)
    firm = any(task.firm for task in tasks)
    return Taker(queue=gang.queue, request=request, preemptible=not firm)


def _place_by_first(world: World, gang: Gang, ways: Iterable[Callable[[], bool]]) -> bool:
    """Place the gang by the first way by which it need not wait, else by the first of all."""
    mark = world.mark()
    waiting = []
    for way in ways:
        if way():
            if not _must_wait(gang):
                return True
            waiting.append(way)
        world.back_to(mark)
    return bool(waiting) and waiting[0]()


def _is_possible(shape: Shape) -> bool:
    """Whether it asks for anything that could be given: nothing negative, no part of a slice, and
    no more of a device than there is of one.
    """
    if min(shape.devices, shape.device_memory_bytes, shape.cpu_milli, shape.memory_bytes) < 0:
        return False
    if shape.devices and not 0 < shape.device_milli <= DEVICE_MILLI:
        return False
    return not (shape.profile and shape.is_shared)


def _place_member(
    world: World, member: Group | Role, demand: Demand, where: Where, *, promised: bool
) -> bool:
    """Place the tasks that belong to this member, in the first set of machines that has room."""
    roles = [member] if isinstance(member, Role) else list(roles_of(member))
    known = {role.name for role in roles}
    tasks = [task for task in demand.tasks if task.role in known]
    if not tasks:
        return True
    mine = Demand(gang=demand.gang, roles=roles, tasks=tasks)
    for site in _sites(world, member.constraint, mine, where):
        mark = world.mark()
        if isinstance(member, Role):
            done = all(_place_task(world, task, site, promised=promised) for task in tasks)
        else:
            orders = orders_of(world, tasks, ordered_members(demand.gang, member))
            done = any(_place_all(world, o, mine, site, promised=promised) for o in orders)
        if done:
            return True
        world.back_to(mark)
    return False


def _place_all(
    world: World,
    members: Iterable[Group | Role],
    demand: Demand,
    where: Where,
    *,
    promised: bool,
) -> bool:
    """Place these members, the ones after the others; nothing has changed when that fails."""
    mark = world.mark()
    if all(_place_member(world, m, demand, where, promised=promised) for m in members):
        return True
    world.back_to(mark)
    return False


def _sites(
    world: World, constraint: Constraint | None, demand: Demand, where: Where
) -> Iterable[Where]:
    return (where,) if constraint is None else node_sets(world, constraint, demand, where)


def _place_task(world: World, task: Task, where: Where, *, promised: bool) -> bool:
    gang, state = world.gangs[task.gang], PIPELINED if promised else BOUND
    taken = _taken(gang, task)
    for name in _order(world, task, where):
        if name in taken:
            continue
        if task.shape.near is not None and not is_near(world, task.shape.near, name):
            continue
        found = world.machines[name].fit(task.shape, spread=world.settings.spread_devices)
        if found is None or not is_allowed(world, task, found[0]):
            continue
        if promised and task.state == EVICTED and _stays(world, task, found[0]):
            return True
        if world.may_backfill(task, found[0], state):
            world.place(task, found[0], at_once=found[1] and not promised)
            return True
    return False


def _taken(gang: Gang, task: Task) -> set[str]:
    """The machines on which the task may not be because others of its role are."""
    if not task.shape.apart:
        return set()
    mine = gang.tasks[task.role]
    places = (t.coming or t.place for t in mine if t is not task and t.state in PLACED)
    return {place.node for place in places if place is not None}


def _order(world: World, task: Task, where: Where) -> Iterator[str]:
    order = ranked(world, task.shape)
    if world.parted.any and task.shape.devices:
        order = _unbarred(world, task, order)
    if where.names is not None:
        allowed = set(where.names)
        order = (name for name in order if name in allowed)
    if where.scores:
        order = iter(sorted(order, key=lambda name: -where.scores.get(name, 0)))
    return order


def _unbarred(world: World, task: Task, order: Iterator[str]) -> Iterator[str]:
    """Without the machines that have only GPUs of which the gang may not have any more."""
    barred = barred_cells(world, world.gangs[task.gang], task.shape)
    if not barred:
        return order
    machines, cells_on = world.machines, world.parted.cells_on
    return (n for n in order if not barred.keys() >= set(cells_on(machines[n], task.shape)))


def _stays(world: World, task: Task, new: Place) -> bool:
    """Whether an evicted task that would be placed where it is simply stays: whole devices of one
    machine are all the same, shared ones are not.
    """
    place = task.place
    if place is None or place.node != new.node:
        return False
    if task.shape.is_shared and new.devices != place.devices:
        return False
    if not world.machines[new.node].still_fits(place):
        return False
    if not world.may_backfill(task, place, RUNNING):
        return False
    world.keep(task, RUNNING)
    return True


def _must_wait(gang: Gang) -> bool:
    return any(
        gang.count(role.name, (PIPELINED,))
        and gang.count(role.name, (BOUND, RUNNING)) < role.minimum
        for role in gang.roles
    )


def _wait_together(world: World, tasks: Sequence[Task]) -> None:
    for task in tasks:
        if task.state == BOUND and task.place is not None:
            world.promise(task, to_come(world, task.shape, task.place))
