"""Topologies: which machines are close to each other, and in which domains a gang could go.

Rule: the smallest domain is tried first, and of several the one that the gang fills most; a
required level is never left, a preferred one only if it has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec

from headrace.scheduling.amounts import RESOURCES, Amounts, total
from headrace.scheduling.gangs import (
    PLACED,
    Constraint,
    Gang,
    Group,
    Nearness,
    Role,
    Task,
    members_of,
    roles_of,
)
from headrace.scheduling.machines import Machine, MachineSpec
from headrace.scheduling.world import World

Domain = tuple[str, ...]  # the values of the levels' labels, widest first; () is everywhere
SCORE_BEST = 10


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of some of a gang's roles that are to be placed together."""

    gang: Gang
    roles: Sequence[Role]
    tasks: Sequence[Task]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Machines to choose from, None for all; of those the ones with the higher score first."""

    names: Sequence[str] | None = None
    scores: Mapping[str, int] = {}


def node_sets(
    world: World, constraint: Constraint, demand: Demand, where: Where
) -> Iterator[Where]:
    """Where to try one after the other; nowhere when the topology or a level is unknown."""
    levels = world.settings.levels.get(constraint.topology)
    depths = _depths(levels, constraint)
    if levels is None or depths is None:
        return
    shallow, deep = depths
    tasks = demand.tasks
    names = list(world.machines) if where.names is None else where.names
    members = _members(world, levels, names, deep)
    frees = {domain: _free(world, machines) for domain, machines in members.items()}
    request = total(world.request_of(task) for task in tasks)
    order = _ordered(frees, request, deep)
    anchors = _anchors(world, constraint, demand, levels) if constraint.required else None
    scores = _preferences(constraint, levels, order, members) or where.scores
    for domain in order:
        if len(domain) < shallow or not _fits(world, members[domain], frees[domain], tasks):
            continue
        if anchors and not any(domain[: len(a)] == a for a in anchors):
            continue
        yield Where(names=members[domain], scores=scores)


def all_of(machine: Machine) -> Amounts:
    """Everything on it, as if nobody had any."""
    return machine.spec.amounts


def could_gather(
    world: World,
    gang: Gang,
    tasks: Sequence[Task],
    room_of: Callable[[Machine], Amounts] = all_of,
) -> bool:
    """Whether every group that must stay within one domain has one that would be large enough with
    so much room on its machines, if nothing was on them when that is not said: exact enough to give
    up, never to promise.
    """
    return _could_gather(world, gang.root, tasks, room_of)


def _could_gather(
    world: World,
    member: Group | Role,
    tasks: Sequence[Task],
    room_of: Callable[[Machine], Amounts],
) -> bool:
    roles = {member.name} if isinstance(member, Role) else {r.name for r in roles_of(member)}
    mine = [task for task in tasks if task.role in roles]
    if isinstance(member, Group) and not all(
        _could_gather(world, inner, mine, room_of) for inner in members_of(member)
    ):
        return False
    constraint = member.constraint
    levels = world.settings.levels.get(constraint.topology) if constraint else None
    if not mine or not constraint or not levels or constraint.required not in levels:
        return True
    depth = levels.index(constraint.required) + 1
    ask, rooms = _least(world, mine), dict[Domain, int]()
    most = _most(mine)
    for machine in world.machines.values():
        domain = domain_of(machine.spec, levels)[:depth]
        if len(domain) == depth:
            room = min(most, _room(room_of(machine), ask, len(mine)))
            rooms[domain] = rooms.get(domain, 0) + room
    return max(rooms.values(), default=0) >= len(mine)


def is_near(world: World, near: Nearness, name: str) -> bool:
    """Whether others with the tags are (or are not) in the machine's domains."""
    labels = world.machines[name].spec.labels
    for label, wanted in ((near.with_label, True), (near.apart_label, False)):
        if not label:
            continue
        found = any(
            world.machines[place.node].spec.labels.get(label) == labels.get(label)
            for gang in world.gangs.values()
            for task in gang.all_tasks()
            if task.state in PLACED and set(near.tags) <= set(task.tags)
            if (place := task.coming or task.place) is not None and place.node in world.machines
        )
        if found != wanted:
            return False
    return True


def domain_of(spec: MachineSpec, levels: Sequence[str]) -> Domain:
    """The machine's domains from the widest level down, as far as it is labelled."""
    domain: list[str] = []
    for level in levels:
        if level not in spec.labels:
            break
        domain.append(spec.labels[level])
    return tuple(domain)


def _depths(levels: tuple[str, ...] | None, constraint: Constraint) -> tuple[int, int] | None:
    """The shallowest and the deepest level that counts; 0 is everywhere."""
    if levels is None or not (constraint.required or constraint.preferred):
        return None
    wanted = [level for level in (constraint.required, constraint.preferred) if level]
    if any(level not in levels for level in wanted):
        return None
    shallow = levels.index(constraint.required) + 1 if constraint.required else 0
    deep = levels.index(constraint.preferred or constraint.required) + 1
    return shallow, max(shallow, deep)


def _members(
    world: World, levels: Sequence[str], names: Sequence[str], deep: int
) -> dict[Domain, list[str]]:
    members: dict[Domain, list[str]] = {}
    for name in names:
        path = domain_of(world.machines[name].spec, levels)
        for depth in range(min(deep, len(path)) + 1):
            members.setdefault(path[:depth], []).append(name)
    return members


def _free(world: World, names: Sequence[str]) -> Amounts:
    machines = [world.machines[name] for name in names]
    return total(machine.free_later for machine in machines)


def _ordered(frees: Mapping[Domain, Amounts], request: Amounts, deep: int) -> list[Domain]:
    """Deepest level first; on one level as in the tree, whose branches are ordered by how much of
    them the request fills.
    """
    keys = {domain: (-_filled(free, request), domain) for domain, free in frees.items()}

    def path(domain: Domain) -> list[tuple[Fraction, Domain]]:
        return [keys[domain[:depth]] for depth in range(1, len(domain) + 1)]

    return sorted(
        (domain for domain in frees if len(domain) <= deep),
        key=lambda domain: (-len(domain), path(domain)),
    )


def _filled(free: Amounts, request: Amounts) -> Fraction:
    parts = [
        Fraction(request[r], free[r]) if free[r] > 0 else Fraction(request[r] * 1_000_000)
        for r in RESOURCES
        if request[r] > 0
    ]
    return max(parts, default=Fraction(0))


def _fits(world: World, names: Sequence[str], free: Amounts, tasks: Sequence[Task]) -> bool:
    """Whether so many tasks could fit by their numbers: exact enough to skip a domain, never to
    promise it.
    """
    kinds = {bool(task.shape.devices) for task in tasks}
    if len(kinds) > 1:
        return _filled(free, total(world.request_of(task) for task in tasks)) <= 1
    ask = _least(world, tasks)
    most = _most(tasks)
    rooms = (min(most, _room(world.machines[name].free_later, ask, most)) for name in names)
    return sum(rooms) >= len(tasks)


def _most(tasks: Sequence[Task]) -> int:
    """How many of them may be on one machine."""
    apart = all(task.shape.apart for task in tasks)
    return len({task.role for task in tasks}) if apart else len(tasks)


def _least(world: World, tasks: Sequence[Task]) -> Amounts:
    """Of each resource what the most modest task asks for."""
    asks = [world.request_of(task) for task in tasks]
    return (min(a[0] for a in asks), min(a[1] for a in asks), min(a[2] for a in asks))


def _room(free: Amounts, ask: Amounts, most: int) -> int:
    return max(0, min((free[r] // ask[r] for r in RESOURCES if ask[r] > 0), default=most))


def _anchors(
    world: World, constraint: Constraint, demand: Demand, levels: Sequence[str]
) -> list[Domain]:
    """The required domains in which some of the gang already is."""
    depth = list(levels).index(constraint.required) + 1
    anchors: dict[Domain, None] = {}
    for role in demand.roles:
        for task in demand.gang.tasks.get(role.name, ()):
            place = task.coming or task.place
            if task.state in PLACED and place is not None:
                anchors[domain_of(world.machines[place.node].spec, levels)[:depth]] = None
    return list(anchors)


def _preferences(
    constraint: Constraint,
    levels: Sequence[str],
    order: Sequence[Domain],
    members: Mapping[Domain, list[str]],
) -> dict[str, int]:
    """Machines of the roomiest domain of the preferred level first, so that few domains are used."""
    if not constraint.preferred:
        return {}
    depth = list(levels).index(constraint.preferred) + 1
    domains = [domain for domain in order if len(domain) == depth]
    return {
        name: (index + 1) * SCORE_BEST // len(domains)
        for index, domain in enumerate(domains)
        for name in members[domain]
    }
