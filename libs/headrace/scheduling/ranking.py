"""Which machine a task goes to: every machine on which it fits, best first.

Rule: the policy's rank decides, then the name. A ranking is kept per shape: only what was touched
since is tried again, and when other arrivals are expected, what was tried is only judged again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.scheduling.eligibility import is_eligible
from headrace.scheduling.fragmentation import Expected
from headrace.scheduling.gangs import Group, Role, Shape, Task, roles_of
from headrace.scheduling.machines import Machine, MachineSpec
from headrace.scheduling.policies import Rank, policy_of
from headrace.scheduling.trials import Trial
from headrace.scheduling.world import World

Key = tuple[bool, int, tuple[int, ...], str]


class Judge(NamedTuple):
    """The policy of some machines. Those under another `turn` are not compared but come earlier or
    later; of them, who is free at once comes before who has to wait.
    """

    rank: Rank
    turn: int
    mixed: bool

    def key(self, trial: Trial, expected: Expected) -> Key:
        """Where the machine stands."""
        rank = self.rank(trial, expected)
        return (self.mixed and trial.waits, self.turn, rank, trial.machine.spec.name)


class Ranking:
    """The machines for one shape."""

    def __init__(self, world: World, shape: Shape) -> None:
        self._world = world
        self._shape = shape
        self._least_milli = _least_milli(shape)
        self._expected = world.expected
        self._bench = Bench(world, shape)
        self._seen = len(world.touched)
        tried = ((name, self._try(name)) for name in world.machines)
        self._trials = {name: trial for name, trial in tried if trial is not None}
        self._judge_all()

    def names(self) -> Iterator[str]:
        """Best first; ends early if the caller changes anything."""
        touched = self._world.touched
        if self._seen < len(touched):
            for name in dict.fromkeys(touched[self._seen :]):
                self._again(name)
            self._seen = len(touched)
        if self._expected is not self._world.expected:
            self._expected = self._world.expected
            self._judge_all()
        return (key[-1] for key in self._order)

    def _again(self, name: str) -> None:
        trial, old = self._try(name), self._keys.pop(name, None)
        new = None
        if trial is None:
            self._trials.pop(name, None)
        else:
            self._trials[name] = trial
            new = self._keys[name] = self._key(trial)
        if old == new:
            return
        if old is not None:
            del self._order[bisect_left(self._order, old)]
        if new is not None:
            insort(self._order, new)

    def _judge_all(self) -> None:
        self._keys = {name: self._key(trial) for name, trial in self._trials.items()}
        self._order = sorted(self._keys.values())

    def _key(self, trial: Trial) -> Key:
        judge = self._bench.judge_of(trial.machine)
        assert judge is not None  # it was tried
        return judge.key(trial, self._expected)

    def _try(self, name: str) -> Trial | None:
        """On most machines of a full cluster the first look at what is free is enough."""
        machine = self._world.machines.get(name)
        if machine is None or (self._least_milli and machine.free_milli < self._least_milli):
            return None
        if self._bench.judge_of(machine) is None:
            return None
        found = machine.fit(self._shape, spread=self._world.settings.spread_devices)
        if found is None:
            return None
        return Trial(self._shape, machine, found[0], waits=not found[1])


class Bench:
    """Who judges which machine for a shape. The world's policy comes first, then those of pools in
    the order in which they are named.
    """

    def __init__(self, world: World, shape: Shape) -> None:
        settings = world.settings
        usual = settings.policy if shape.devices else settings.cpu_policy or settings.policy
        turns = list(dict.fromkeys((usual, *settings.policies.values())))
        self._shape, self._usual, self._policies = shape, usual, settings.policies
        self._judges = {
            policy: Judge(policy_of(policy), turn, mixed=len(turns) > 1)
            for turn, policy in enumerate(turns)
        }
        self._known: dict[str, tuple[MachineSpec, Judge | None]] = {}  # of machines as they are

    def judge_of(self, machine: Machine) -> Judge | None:
        """None when the machine does not take tasks of this shape."""
        spec = machine.spec
        known = self._known.get(spec.name)
        if known is None or known[0] is not spec:
            judge = None
            if is_eligible(self._shape, machine):
                judge = self._judges[self._policies.get(spec.pool, self._usual)]
            known = self._known[spec.name] = (spec, judge)
        return known[1]


def orders_of(
    world: World, tasks: Sequence[Task], members: Sequence[Group | Role]
) -> Iterator[Sequence[Group | Role]]:
    """In which orders the members of a group are tried: as they are, then those first whose tasks
    find the fewest machines, which others may have taken else.
    """
    yield members
    if len(members) < 2:
        return

    def rooms(member: Group | Role) -> int:
        roles = [member] if isinstance(member, Role) else roles_of(member)
        names = {role.name for role in roles}
        shapes = dict.fromkeys(task.shape for task in tasks if task.role in names)
        return min((sum(1 for _ in ranked(world, shape)) for shape in shapes), default=0)

    by_room = sorted(members, key=rooms)
    if by_room != members:
        yield by_room


def ranked(world: World, shape: Shape) -> Iterator[str]:
    """The machines on which a task of this shape fits by its numbers, best first."""
    ranking = world.rankings.get(shape)
    if ranking is None:
        ranking = world.rankings[shape] = Ranking(world, shape)
    return ranking.names()


def could_hold(world: World, shape: Shape) -> bool:
    """Whether a task of this shape would fit on any machine if nothing else was on it."""
    known = world.holdable.get(shape)
    if known is None:
        known = world.holdable[shape] = any(
            is_eligible(shape, machine) and Machine(machine.spec).fit(shape) is not None
            for machine in world.machines.values()
        )
    return known


def _least_milli(shape: Shape) -> int:
    """Thousandths of GPUs without which no machine has room for it."""
    return shape.devices * (1 if shape.device_memory_bytes else shape.device_milli)
