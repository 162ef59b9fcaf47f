"""What machines, queues and gangs have and want, as it stands between turns.

Rule: these books are kept step by step as the log goes on, and are the same as if they had been
written anew. Nothing here is tried out and nothing decides.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from headrace.scheduling.accounts import Accounts
from headrace.scheduling.amounts import GPU, NOTHING, Amounts, minus, plus, times
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.banks import COMING, HELD, LEAVING
from headrace.scheduling.division import QueueSpec, divide_amounts, divide_part
from headrace.scheduling.fleet import Fleet
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
from headrace.scheduling.machines import Machine, MachineSpec
from headrace.scheduling.part_books import PartBooks
from headrace.scheduling.parts import Cell
from headrace.scheduling.settings import Settings

TOUCHED_MAX = 20_000  # changes remembered before every machine is ranked anew
KINDS_MAX = 256  # shapes whose ranking is kept from turn to turn


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
        self.parted = PartBooks(self.machines)
        self.fleet = Fleet()
        self.free_milli = 0  # later, over all machines
        self.steps = 0  # counts what was tried, in all turns
        self.edition = 0  # rises when anything changes but by trying
        self.touched: list[str] = []  # every machine that changed, for rankings to follow
        self.rankings: dict[Shape, Names] = {}
        self.expected = NOTHING_EXPECTED
        self.holdable: dict[Shape | Place, bool] = {}  # whether any machine could hold it, if empty
        self.evictions: Mapping[str, Sequence[int]] = {}  # by queue, when it lost gangs lately
        self._end_of: dict[str, int] = {}
        self._requests: dict[str, Amounts] = {}  # by gang, what it has and wants
        self._wanted: dict[str, Amounts] = {}  # the same, by queue
        self._usage = usage
        self._divided: object = None  # what the shares in force were divided from
        for spec in machines:
            self.set_machine(spec)
        self.set_queues(queues or {})
        for gang in gangs:
            self.enter(gang)
        self.begin(now_us)

    def set_settings(self, settings: Settings) -> None:
        """Turns are taken otherwise from now on."""
        self.settings, self._divided = settings, None
        self.rankings.clear()

    def set_machine(self, spec: MachineSpec) -> None:
        """A machine is new or has changed; what is booked on it stays."""
        there = list(self._held_on(spec.name))
        self._charge(there, -1)
        old = self._drop(spec.name)
        self.machines[spec.name] = machine = Machine(spec)
        for _, task in there:
            place, book = _booked(task)
            if place is not None:
                machine.book(place, book)
        self._charge(there, 1)
        self.free_milli += machine.free_milli
        self.parted.follow(old.spec if old is not None else None, spec)

    def drop_machine(self, name: str) -> None:
        """A machine is there no more."""
        there = list(self._held_on(name)) if self.parted.any else []
        self._charge(there, -1)
        machine = self._drop(name)
        self._charge(there, 1)
        if machine is not None:
            self.parted.follow(machine.spec, None)

    def set_queues(self, queues: Mapping[str, QueueSpec]) -> None:
        """The whole tree."""
        self.accounts = Accounts(queues, self.parted.cell_at)
        self.queues, self._divided = queues, None
        if self.accounts.parts.all != self.parted.parts.all:
            self.parted.set_parts(self.accounts.parts)
            for gang, names in self.lines.alike(self.gangs):
                self._want_parts(gang, names)
        for gangs in self.holders.values():
            for gang in gangs.values():
                self._account(gang, 1)

    def requeue(self, queues: Collection[str], queue_of: Callable[[str], str]) -> None:
        """Those who wait in these queues with nothing placed are of the queues that `queue_of` says
        of their owners now: counted by their kinds, as there may be very many. Who has something is
        entered anew.
        """
        self.edition += 1
        for old, new, keys in self.lines.regroup(queues, queue_of):
            first = keys[0][1]
            more = times(self._requests[first], len(keys))
            self._wanted[old] = minus(self._wanted[old], more)
            self._wanted[new] = plus(self._wanted.get(new, NOTHING), more)
            if self.parted.any:
                self.parted.requeue(first, len(keys), old, new)

    def set_usage(self, usage: Mapping[str, Amounts] | None) -> None:
        """What each queue used lately, in parts of `USAGE_ONE` of all there is."""
        if usage != self._usage:
            self._usage, self._divided = usage, None

    def enter(self, gang: Gang) -> None:
        """A gang is new, or replaces the one of its name."""
        self.leave(gang.name)
        self.edition += 1
        self.gangs[gang.name] = gang
        self._enter(gang, 1)
        self._want(gang, (gang.name,))
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
        self.edition += 1
        self._enter(gang, -1)
        self.lines.drop(gang)
        self.holders.get(gang.queue, {}).pop(name, None)
        self.leaving.pop(name, None)
        if (end_us := self._end_of.pop(name, None)) is not None:
            del self.ends[bisect_left(self.ends, (end_us, name))]
        self._wanted[gang.queue] = minus(self._wanted[gang.queue], self._requests.pop(name))
        self.parted.leave(gang)

    def begin(self, now_us: int) -> None:
        """A turn begins: shares are divided again if what they depend on has changed."""
        self.now_us = now_us
        self.edition += 1
        if len(self.touched) > TOUCHED_MAX or len(self.rankings) > KINDS_MAX:
            self.touched.clear()
            self.rankings.clear()
        if self.fleet.measure(self.machines.values()):
            self._wanted.clear()
            self.parted.set_parts(self.accounts.parts)
            for gang, names in self.lines.alike(self.gangs):
                self._want(gang, names)
        elif self.parted.any and self.parted.refresh():
            for gang, names in self.lines.alike(self.gangs):
                self._want_parts(gang, names)
        version = self.parted.version if self.parted.any else 0
        if (self._wanted, self.fleet.amounts, version) != self._divided:
            self._divided = (dict(self._wanted), self.fleet.amounts, version)
            self._divide()

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

    def cell_at(self, place: Place) -> Cell:
        """Of which parts of the fleet the GPUs of a place are."""
        return self.parted.cell_at(place) if self.parted.any else ()

    def learn(self, arrivals: Arrivals) -> None:
        """Rank machines from now on by what these arrivals let expect. It takes up to tens of
        milliseconds: who makes a world for every turn keeps `expected` and hands it on.
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
                self.accounts.book(gang.queue, place, firm=task.firm, sign=sign)

    def _held_on(self, node: str) -> Iterator[tuple[Gang, Task]]:
        """Who has or is promised something there, with its gang."""
        for gangs in self.holders.values():
            for gang in gangs.values():
                for task in gang.all_tasks():
                    place, _ = _booked(task)
                    if place is not None and place.node == node:
                        yield gang, task

    def _charge(self, there: Iterable[tuple[Gang, Task]], sign: int) -> None:
        """The machine changes: what is held there may be of other parts of the fleet then."""
        for gang, task in there if self.parted.any else ():
            place, _ = _booked(task)
            if place is not None and task.state in PLACED:
                self.accounts.book(gang.queue, place, firm=task.firm, sign=sign)
            self.parted.leave(gang)
            self._want_parts(gang, (gang.name,))

    def _drop(self, name: str) -> Machine | None:
        machine = self.machines.pop(name, None)
        self.free_milli -= machine.free_milli if machine is not None else 0
        self.fleet.changed = True
        self.touched.append(name)
        self.holdable.clear()
        return machine

    def _divide(self) -> None:
        amounts, usage, strength = self.fleet.amounts, self._usage, self.settings.usage_strength
        shares = divide_amounts(self.queues, self._wanted, amounts, usage, strength)
        self.accounts.redivide(shares, amounts)
        parted = self.parted
        for number, milli in enumerate(parted.capacities() if parted.any else ()):
            part, wanted = parted.parts.all[number], parted.wanted[number]
            mine = divide_part(
                self.queues, part, wanted, milli, usage=usage, usage_strength=strength
            )
            self.accounts.redivide_part(number, mine)

    def _want(self, gang: Gang, names: Sequence[str]) -> None:
        """Count what the gang, and each of these like it, has and wants."""
        mine = NOTHING
        for task in gang.all_tasks():
            if task.state in PLACED and task.place is not None:
                mine = plus(mine, task.place.amounts)
            elif task.state == PENDING:
                mine = plus(mine, self.request_of(task))
        self._requests.update(dict.fromkeys(names, mine))
        more = times(mine, len(names))
        self._wanted[gang.queue] = plus(self._wanted.get(gang.queue, NOTHING), more)
        self._want_parts(gang, names)

    def _want_parts(self, gang: Gang, names: Sequence[str]) -> None:
        if self.parted.any:
            self.parted.want(gang, names, lambda task: self.request_of(task)[GPU])


def _booked(task: Task) -> tuple[Place | None, int]:
    """The place that a task takes on a machine, and in which of its books."""
    if task.state == PIPELINED:
        return task.coming, COMING
    if task.state in (RELEASING, EVICTED):
        return task.place, LEAVING
    return (task.place if task.state in (*PLACED, STUCK) else None), HELD
