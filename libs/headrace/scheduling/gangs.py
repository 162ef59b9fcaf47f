"""Gangs as the scheduler sees them: tasks in roles, roles in groups, and which tasks come next.

Rule: below its minimum a gang is placed and evicted as a whole, above it one task (or one surplus
group) at a time. A task changes its state through `Gang.move` only, which keeps the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from headrace.scheduling.amounts import Amounts

PENDING = "pending"
BOUND = "bound"  # placed in this turn on what is free
PIPELINED = "pipelined"  # promised what is being released
RUNNING = "running"
EVICTED = "evicted"  # stopped in this turn; may still be placed again in it
RELEASING = "releasing"  # on its way out since before this turn
STUCK = "stuck"  # should be gone long ago: nobody can count on what it holds
ENDED = "ended"
SUCCEEDED = "succeeded"

PLACED = (BOUND, PIPELINED, RUNNING)  # counts for the gang's minimum
USING = (*PLACED, EVICTED, RELEASING, STUCK)
ALIVE = (*PLACED, PENDING)
BELOW, AT, ABOVE = range(3)  # a gang's minimum


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """Levels of a topology: all tasks within one domain of `required`, close by at `preferred`."""

    topology: str
    required: str = ""
    preferred: str = ""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of one kind; fewer than `minimum` placed are of no use."""

    name: str
    minimum: int
    constraint: Constraint | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Roles and groups of which at least `minimum` must have theirs; None: all."""

    name: str = ""
    minimum: int | None = None
    groups: tuple[Group, ...] = ()
    roles: tuple[Role, ...] = ()
    constraint: Constraint | None = None

    @property
    def needed(self) -> int:
        """How many members must have their minimum."""
        return len(self.groups) + len(self.roles) if self.minimum is None else self.minimum


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What one task asks of its node: `devices` GPUs, `device_milli` thousandths of each or, where
    given, `device_memory_bytes` of each; of a `model` and with so much memory in all, if given.

    `only` names the nodes it may run on, `labels` what they must be labelled. `apart`: no other task
    of its role may be on the same node; `contained`: the node must have a container engine.
    """

    devices: int = 0
    device_milli: int = 1000
    device_memory_bytes: int = 0
    model: str = ""
    profile: str = ""
    memory_min_bytes: int = 0
    memory_max_bytes: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    only: tuple[str, ...] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[str, ...] = ()
    near: Nearness | None = None
    apart: bool = False
    contained: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether it leaves room for others on its devices."""
        return bool(self.devices) and (self.device_milli < 1000 or bool(self.device_memory_bytes))

    def milli_of(self, device_memory_bytes: int) -> int:
        """Thousandths of one device of that size that it takes."""
        if not self.device_memory_bytes:
            return self.device_milli
        return -(-self.device_memory_bytes * 1000 // max(1, device_memory_bytes))

    def amounts(self, device_memory_bytes: int) -> Amounts:
        """What it takes where devices have that much memory."""
        gpu = self.devices * self.milli_of(device_memory_bytes) if self.devices else 0
        return (gpu, self.cpu_milli, self.memory_bytes)


class Nearness(msgspec.Struct, frozen=True, kw_only=True):
    """Where others with a tag are: only within the same domain of a label, or never within it."""

    tags: tuple[tuple[str, str], ...]
    with_label: str = ""
    apart_label: str = ""


class Place(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a task is or will be. `devices` are indices; whole devices that are still to come have
    none yet, only a `count` of one `bank`.
    """

    node: str
    amounts: Amounts
    devices: tuple[int, ...] = ()
    milli: int = 0  # of each device
    count: int = 0
    bank: int = 0


class Task(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """One member of a gang. `place` is what it has, `coming` what it is promised."""

    name: str
    gang: str
    shape: Shape
    role: str = "default"
    priority: int = 0
    rank: int = 0
    firm: bool = False  # cannot be preempted, even where its gang can
    tags: tuple[tuple[str, str], ...] = ()
    state: str = PENDING
    place: Place | None = None
    coming: Place | None = None


class Gang(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """Tasks that are of use only together. `age` orders equals: lower is older. `options` are what its
    tasks may ask for instead of their shapes, the best first: a shape for each role; never mixed.
    A pending gang younger than `patience_us` evicts nobody; one below its minimum for longer than
    `staleness_grace_us` (below 0: ever) is evicted. By `room_by_us` others have gone for it. Gangs of
    one `owner` change queues together.
    """

    name: str
    queue: str
    root: Group
    owner: str = ""
    priority: int = 0
    preemptible: bool = True
    protected_minimum: bool = False  # of it nothing may be taken: its tasks are firm
    age: int = 0
    submitted_at_us: int = 0
    started_at_us: int | None = None
    stale_since_us: int | None = None
    patience_us: int = 0
    staleness_grace_us: int | None = None
    room_by_us: int = 0
    max_duration_us: int = 0  # it is ended that long after its start; 0: the settings' duration
    options: tuple[tuple[Shape, ...], ...] = ()
    tasks: dict[str, list[Task]] = {}  # by role, in the order in which they are placed
    counts: dict[str, dict[str, int]] = {}  # by role and state

    def add(self, task: Task) -> None:
        """Take in one more task, in any state."""
        task.firm = task.firm or not self.preemptible
        mine = self.tasks.setdefault(task.role, [])
        mine.append(task)
        mine.sort(key=lambda t: (-t.priority, t.rank, t.name))
        counts = self.counts.setdefault(task.role, {})
        counts[task.state] = counts.get(task.state, 0) + 1

    def move(self, task: Task, state: str) -> None:
        """Change a task's state."""
        counts = self.counts[task.role]
        counts[task.state] -= 1
        counts[state] = counts.get(state, 0) + 1
        task.state = state

    def count(self, role: str, states: tuple[str, ...]) -> int:
        """How many of a role's tasks are in one of these states."""
        found, counts = 0, self.counts.get(role, {})
        for state in states:  # a loop of its own, as this is what a turn does most
            if state in counts:
                found += counts[state]
        return found

    def any_in(self, states: tuple[str, ...]) -> bool:
        """Whether any task is in one of these states."""
        for counts in self.counts.values():
            for state in states:
                if counts.get(state):
                    return True
        return False

    def all_tasks(self) -> Iterator[Task]:
        """Every task, role by role."""
        for tasks in self.tasks.values():
            yield from tasks

    @property
    def roles(self) -> Sequence[Role]:
        """Every role of the tree."""
        return list(roles_of(self.root)) if self.root.groups else self.root.roles

    def standing(self) -> int:
        """BELOW its minimum in any role, AT it in all, or ABOVE."""
        above = False
        for role in self.roles:
            placed = self.count(role.name, PLACED)
            if placed < role.minimum:
                return BELOW
            above = above or placed > role.minimum
        return ABOVE if above else AT

    def is_stale(self) -> bool:
        """Whether it runs with less than its minimum and has not ended anywhere."""
        if self.any_in((SUCCEEDED,)) or not self.any_in(USING):
            return False
        return any(self.count(role.name, USING) < role.minimum for role in self.roles)


def roles_of(group: Group) -> Iterator[Role]:
    """The roles of the group and of everything in it."""
    yield from group.roles
    for inner in group.groups:
        yield from roles_of(inner)


def is_ready(gang: Gang, member: Group | Role) -> bool:
    """Whether enough tasks are there for the member to be placed at all."""
    if isinstance(member, Role):
        return gang.count(member.name, ALIVE) >= member.minimum
    return sum(is_ready(gang, m) for m in members_of(member)) >= member.needed


def is_satisfied(gang: Gang, member: Group | Role) -> bool:
    """Whether the member has its minimum placed."""
    return placed_in(gang, member) >= _needed(member)


def placed_in(gang: Gang, member: Group | Role) -> int:
    """How many tasks of a role, or members of a group, are placed."""
    if isinstance(member, Role):
        return gang.count(member.name, PLACED)
    return sum(is_satisfied(gang, m) for m in members_of(member))


def members_of(group: Group) -> list[Group | Role]:
    """The group's own groups and roles."""
    return [*group.groups, *group.roles]


def ordered_members(gang: Gang, group: Group) -> list[Group | Role]:
    """Who is served first: those below their minimum, then the least above it, those that need
    nothing last; by name.
    """
    return sorted(members_of(group), key=lambda m: _member_key(gang, m))


def next_tasks(gang: Gang, *, again: bool) -> list[Task]:
    """What to place next: what the gang lacks for its minimum or, above it, one more. `again`: what
    was evicted in this turn counts as waiting.
    """
    return _collect(gang, gang.root, (PENDING, EVICTED) if again else (PENDING,))


def _collect(gang: Gang, group: Group, states: tuple[str, ...]) -> list[Task]:
    if not group.groups and len(group.roles) == 1:
        return _of_member(gang, group.roles[0], states)  # most gangs are of one role
    members = ordered_members(gang, group)
    if not is_satisfied(gang, group):
        lacking = [m for m in members[: group.needed] if not is_satisfied(gang, m)]
        return [task for member in lacking for task in _of_member(gang, member, states)]
    for member in members:
        if tasks := _of_member(gang, member, states):
            return tasks
    return []


def _of_member(gang: Gang, member: Group | Role, states: tuple[str, ...]) -> list[Task]:
    if isinstance(member, Group):
        return _collect(gang, member, states)
    lacking = max(1, member.minimum - gang.count(member.name, PLACED))
    return list(islice((t for t in gang.tasks.get(member.name, ()) if t.state in states), lacking))


def _needed(member: Group | Role) -> int:
    return member.minimum if isinstance(member, Role) else member.needed


def _member_key(gang: Gang, member: Group | Role) -> tuple[int, int, int, str]:
    placed, needed = placed_in(gang, member), _needed(member)
    if placed < needed:
        return (0, 0, 0, member.name)
    if not needed:
        return (2, placed, 0, member.name)
    return (1, placed * 1_000_000 // needed, 0, member.name)
