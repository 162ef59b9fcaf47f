"""What machines, queues and gangs have and want, as it stands between turns.

Rule: these books are kept step by step as the log goes on, and are the same as if they had been
written anew. Nothing here is tried out and nothing decides.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from headrace.scheduling.accounts import Accounts
from headrace.scheduling.amounts import NOTHING, Amounts, minus, plus, total
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.division import QueueSpec, divide_amounts
from headrace.scheduling.fragmentation import NOTHING_EXPECTED, expect
from headrace.scheduling.gangs import (
    EVICTED,
    PENDING,
    PIPELINED,
    PLACED,
    RELEASING,
    RUNNING,
    STUCK,
    USING,
    Gang,
    Place,
    Shape,
    Task,
)
from headrace.scheduling.horizon import NEVER_US
from headrace.scheduling.lines import Lines
from headrace.scheduling.machines import (
    COMING,
    HELD,
    LEAVING,
    Machine,
    MachineSpec,
    memory_bounds,
)
from headrace.scheduling.settings import Settings

TOUCHED_MAX = 20_000  # changes remembered before every machine is ranked anew
KINDS_MAX = 256  # shapes whose ranking is kept from turn to turn


class Fleet:
    """All machines together. `changed`: to be measured again."""

    def __init__(self) -> None:
        self.changed = True
        self.amounts = NOTHING
        self.memory_min_bytes = self.memory_max_bytes = 0  # of one device

    def measure(self, machines: Iterable[Machine]) -> bool:
        """Add up what there is; whether tasks may ask for other amounts now."""
        if not self.changed:
            return False
        self.changed = False
        specs = [machine.spec for machine in machines]
        before = (self.memory_min_bytes, self.memory_max_bytes)
        self.amounts = total(spec.amounts for spec in specs)
        self.memory_min_bytes, self.memory_max_bytes = memory_bounds(specs)
        return before != (self.memory_min_bytes, self.memory_max_bytes)


class Names(Protocol):
    """Something that ranks machines."""

    def names(self) -> Iterator[str]: ...


class Books:
    """Everything one turn looks at. Ages and ranks are unique, so that every order is total."""

    def __init__(
        self,
        machines: Iterable[MachineSpec] = (),
        queues: Mapping[str, QueueSpec] | None = None,
        gangs: Iterable[Gang] = (),
        *,
        now_us: int = 0,
        settings: Settings | None = None,
        usage: Mapping[str, Amounts] | None = None,
    ) -> None:
        self.now_us = now_us
        self.settings = settings or Settings()
        self.machines: dict[str, Machine] = {}
        self.gangs: dict[str, Gang] = {}
        self.holders: dict[str, dict[str, Gang]] = {}  # by queue, the gangs that may have something
        self.ends: list[tuple[int, str]] = []  # who runs, the first to end first
        self.leaving: dict[str, None] = {}  # who is on its way out since before this turn
        self.lines = Lines()
        self.accounts = Accounts({})
        self.fleet = Fleet()
        self.free_milli = 0  # later, over all machines
        self.steps = 0  # counts what was tried, in all turns
        self.touched: list[str] = []  # every machine that changed, for rankings to follow
        self.rankings: dict[Shape, Names] = {}
        self.expected = NOTHING_EXPECTED
        self.holdable: dict[Shape, bool] = {}  # whether any machine could hold it, if empty
        self.evictions: Mapping[str, Sequence[int]] = {}  # by queue, when it lost gangs lately
        self._end_of: dict[str, int] = {}
        self._requests: dict[str, Amounts] = {}  # by gang, what it has and wants
        self._wanted: dict[str, Amounts] = {}  # the same, by queue
        self._divided: object = None  # what the shares in force were divided from
        for spec in machines:
            self.set_machine(spec)
        self.set_queues(queues or {}, usage)
        for gang in gangs:
            self.enter(gang)
        self.begin(now_us)

    def set_settings(self, settings: Settings) -> None:
        """Turns are taken otherwise from now on."""
        self.settings = settings
        self.rankings.clear()

    def set_machine(self, spec: MachineSpec) -> None:
        """A machine is new or has changed; what is booked on it stays."""
        self.drop_machine(spec.name)
        self.machines[spec.name] = machine = Machine(spec)
        for gangs in self.holders.values():
            for gang in gangs.values():
                for task in gang.all_tasks():
                    place, book = _booked(task)
                    if place is not None and place.node == spec.name:
                        machine.book(place, book)
        self.free_milli += machine.free_milli

    def drop_machine(self, name: str) -> None:
        """A machine is there no more."""
        machine = self.machines.pop(name, None)
        self.free_milli -= machine.free_milli if machine is not None else 0
        self.fleet.changed = True
        self.touched.append(name)
        self.holdable.clear()

    def set_queues(
        self, queues: Mapping[str, QueueSpec], usage: Mapping[str, Amounts] | None = None
    ) -> None:
        """The whole tree, and what each queue used lately."""
        self.accounts = Accounts(queues)
        self.queues, self._usage, self._divided = queues, usage, None
        for gang in self.gangs.values():
            self._account(gang, 1)

    def enter(self, gang: Gang) -> None:
        """A gang is new, or replaces the one of its name."""
        self.leave(gang.name)
        self.gangs[gang.name] = gang
        self._enter(gang, 1)
        self._want(gang)
        if gang.any_in(USING):
            self.holders.setdefault(gang.queue, {})[gang.name] = gang
        if gang.any_in((RUNNING,)):
            self._end_of[gang.name] = self.end_of(gang)
            insort(self.ends, (self._end_of[gang.name], gang.name))
        if gang.any_in((RELEASING,)):
            self.leaving[gang.name] = None
        if gang.any_in((PENDING,)):
            self.lines.put(gang)

    def leave(self, name: str) -> None:
        """A gang has gone."""
        gang = self.gangs.pop(name, None)
        if gang is None:
            return
        self._enter(gang, -1)
        self.lines.drop(gang)
        self.holders.get(gang.queue, {}).pop(name, None)
        self.leaving.pop(name, None)
        if (end_us := self._end_of.pop(name, None)) is not None:
            del self.ends[bisect_left(self.ends, (end_us, name))]
        self._wanted[gang.queue] = minus(self._wanted[gang.queue], self._requests.pop(name))

    def begin(self, now_us: int) -> None:
        """A turn begins: shares are divided again if what they depend on has changed."""
        self.now_us = now_us
        if len(self.touched) > TOUCHED_MAX or len(self.rankings) > KINDS_MAX:
            self.touched.clear()
            self.rankings.clear()
        if self.fleet.measure(self.machines.values()):
            self._wanted.clear()
            for gang in self.gangs.values():
                self._want(gang)
        if (self._wanted, self.fleet.amounts) != self._divided:
            self._divided = (dict(self._wanted), self.fleet.amounts)
            strength = self.settings.usage_strength
            amounts = self.fleet.amounts
            shares = divide_amounts(self.queues, self._wanted, amounts, self._usage, strength)
            self.accounts.redivide(shares, amounts)

    def duration_us(self, gang: Gang) -> int:
        """How long the gang may run."""
        return gang.max_duration_us or self.settings.max_duration_us

    def end_of(self, gang: Gang) -> int:
        """When a gang that runs ends at the latest; nobody knows of one without a start."""
        if gang.started_at_us is None:
            return NEVER_US
        return gang.started_at_us + self.duration_us(gang)

    def request_of(self, task: Task) -> Amounts:
        """What a waiting task asks for, memory counted in the smallest devices there are."""
        return task.shape.amounts(self.fleet.memory_min_bytes)

    def learn(self, arrivals: Arrivals) -> None:
        """Rank machines from now on by what these arrivals let expect. It takes milliseconds: who
        makes a world for every turn keeps `expected` and hands it on.
        """
        self.expected = expect(arrivals)

    def _enter(self, gang: Gang, sign: int) -> None:
        """Book what the gang has and is promised, or strike it out."""
        for task in gang.all_tasks():
            place, book = _booked(task)
            if place is not None and place.node in self.machines:
                self.book(place, book, sign)
        self._account(gang, sign)

    def book(self, place: Place, book: int, sign: int = 1) -> None:
        """Enter a place in a book of its machine or, with `sign` -1, strike it out."""
        machine = self.machines[place.node]
        before = machine.free_milli
        machine.book(place, book, sign)
        self.free_milli += machine.free_milli - before
        self.touched.append(place.node)

    def _account(self, gang: Gang, sign: int) -> None:
        for task in gang.all_tasks():
            place, _ = _booked(task)
            if place is not None and task.state in PLACED:
                firm = not gang.preemptible
                self.accounts.book(gang.queue, place.amounts, firm=firm, sign=sign)

    def _want(self, gang: Gang) -> None:
        """Count what the gang has and wants."""
        mine = NOTHING
        for task in gang.all_tasks():
            if task.state in PLACED and task.place is not None:
                mine = plus(mine, task.place.amounts)
            elif task.state == PENDING:
                mine = plus(mine, self.request_of(task))
        self._requests[gang.name] = mine
        self._wanted[gang.queue] = plus(self._wanted.get(gang.queue, NOTHING), mine)


def _booked(task: Task) -> tuple[Place | None, int]:
    """The place that a task takes on a machine, and in which of its books."""
    if task.state == PIPELINED:
        return task.coming, COMING
    if task.state in (RELEASING, EVICTED):
        return task.place, LEAVING
    return (task.place if task.state in (*PLACED, STUCK) else None), HELD
