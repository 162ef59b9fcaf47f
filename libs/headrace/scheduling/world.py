"""A cluster in a turn, to try things on: machines, gangs and queues, and every change undone again.

Rule: a task is placed, evicted and kept through `World` only, which books it on its machine and its
queue and remembers how to take it back. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from headrace.scheduling.accounts import Accounts
from headrace.scheduling.amounts import NOTHING, Amounts, plus, total
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.division import QueueSpec, divide_amounts
from headrace.scheduling.fragmentation import NOTHING_EXPECTED, expect
from headrace.scheduling.gangs import (
    BOUND,
    EVICTED,
    PENDING,
    PIPELINED,
    PLACED,
    RELEASING,
    RUNNING,
    STUCK,
    Gang,
    Place,
    Shape,
    Task,
)
from headrace.scheduling.machines import (
    COMING,
    HELD,
    LEAVING,
    Machine,
    MachineSpec,
    memory_bounds,
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn is taken. Durations in microseconds."""

    policy: str = "binpack"  # which machine is taken: a name in POLICIES
    cpu_policy: str = ""  # for tasks without GPUs, if it is another one
    policies: Mapping[str, str] = {}  # by pool, where it is another one
    spread_devices: bool = False  # shares on the emptiest device instead of the fullest
    levels: Mapping[str, tuple[str, ...]] = {}  # labels of each topology, widest first
    staleness_grace_us: int = 60_000_000
    usage_strength: int = 0
    steps_max: int = 20_000  # evictions tried for one gang: more would make a turn too long


class Names(Protocol):
    """Something that ranks machines."""

    def names(self) -> Iterator[str]: ...


class World:
    """Everything one turn looks at. Ages and ranks are unique, so that every order is total."""

    def __init__(
        self,
        machines: Sequence[MachineSpec],
        queues: Mapping[str, QueueSpec],
        gangs: Iterable[Gang],
        *,
        now_us: int = 0,
        settings: Settings | None = None,
        usage: Mapping[str, Amounts] | None = None,
    ) -> None:
        self.now_us = now_us
        self.settings = settings or Settings()
        self.machines = {spec.name: Machine(spec) for spec in machines}
        self.gangs = {gang.name: gang for gang in gangs}
        self.memory_min_mib, self.memory_max_mib = memory_bounds(machines)
        self.touched: list[str] = []  # every machine that changed, for rankings to follow
        self.rankings: dict[Shape, Names] = {}
        self.expected = NOTHING_EXPECTED
        self.holdable: dict[Shape, bool] = {}  # whether any machine could hold it, if empty
        self._undo: list[Callable[[], None]] = []
        capacity = total(spec.amounts for spec in machines)
        requests = self._requests()
        strength = self.settings.usage_strength
        shares = divide_amounts(queues, requests, capacity, usage, strength)
        self.accounts = Accounts(queues, shares, capacity)
        for gang in self.gangs.values():
            for task in gang.all_tasks():
                self._enter(gang, task)

    def request_of(self, task: Task) -> Amounts:
        """What a waiting task asks for, memory counted in the smallest devices there are."""
        return task.shape.amounts(self.memory_min_mib)

    def learn(self, arrivals: Arrivals) -> None:
        """Rank machines from now on by what these arrivals let expect. It takes milliseconds: who
        makes a world for every turn keeps `expected` and hands it on.
        """
        self.expected = expect(arrivals)

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Take back everything since the mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def place(self, task: Task, place: Place, *, at_once: bool) -> None:
        """Give a waiting or evicted task a place: at once, or promised."""
        gang, before = self.gangs[task.gang], task.state
        self.machines[place.node].book(place, HELD if at_once else COMING)
        self.touched.append(place.node)
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible)
        gang.move(task, BOUND if at_once else PIPELINED)
        if at_once:
            task.place = place
        else:
            task.coming = place
        self._undo.append(partial(self._unplace, task, place, before, at_once=at_once))

    def evict(self, task: Task) -> None:
        """Stop a running task: what it has is leaving. What was only placed or promised in this
        turn is taken back at once.
        """
        place, before = task.place, task.state
        if before != RUNNING:
            self._cancel(task)
            return
        assert place is not None  # only what holds something is ever evicted
        self._turn_over(place, HELD, LEAVING)
        gang = self.gangs[task.gang]
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible, sign=-1)
        gang.move(task, EVICTED)
        self._undo.append(partial(self._unevict, task, place, before))

    def keep(self, task: Task, state: str) -> None:
        """Let an evicted task stay where it is, in the state it had."""
        place = task.place
        assert place is not None  # it was evicted from somewhere
        self._unevict(task, place, state)
        self._undo.append(partial(self._evict_again, task))

    def promise(self, task: Task, place: Place) -> None:
        """Turn what a task was given at once into a promise, as its gang has to wait for others."""
        held = task.place
        assert held is not None  # it was placed in this turn
        self._unplace(task, held, PENDING, at_once=True)
        self._undo.append(partial(self._replace, task, held, at_once=True))
        self.place(task, place, at_once=False)

    def _cancel(self, task: Task) -> None:
        at_once = task.state == BOUND
        place = task.place if at_once else task.coming
        assert place is not None  # it was placed in this turn
        moved = not at_once and task.place is not None
        self._unplace(task, place, EVICTED if moved else PENDING, at_once=at_once)
        self._undo.append(partial(self._replace, task, place, at_once=at_once))

    def _replace(self, task: Task, place: Place, *, at_once: bool) -> None:
        self.place(task, place, at_once=at_once)
        self._undo.pop()

    def _turn_over(self, place: Place, book: int, other: int) -> None:
        machine = self.machines[place.node]
        machine.book(place, book, -1)
        machine.book(place, other)
        self.touched.append(place.node)

    def _evict_again(self, task: Task) -> None:
        self.evict(task)
        self._undo.pop()

    def _unevict(self, task: Task, place: Place, before: str) -> None:
        self._turn_over(place, LEAVING, HELD)
        gang = self.gangs[task.gang]
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible)
        gang.move(task, before)

    def _unplace(self, task: Task, place: Place, before: str, *, at_once: bool) -> None:
        gang = self.gangs[task.gang]
        self.machines[place.node].book(place, HELD if at_once else COMING, -1)
        self.touched.append(place.node)
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible, sign=-1)
        gang.move(task, before)
        if at_once:
            task.place = None
        else:
            task.coming = None

    def _enter(self, gang: Gang, task: Task) -> None:
        place = task.coming if task.state == PIPELINED else task.place
        if place is None or place.node not in self.machines:
            return
        if task.state == PIPELINED:
            self.machines[place.node].book(place, COMING)
            self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible)
        elif task.state in (RELEASING, EVICTED):
            self.machines[place.node].book(place, LEAVING)
        elif task.state in PLACED or task.state == STUCK:
            self.machines[place.node].book(place, HELD)
            if task.state in PLACED:
                self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible)

    def _requests(self) -> dict[str, Amounts]:
        """What every queue's gangs have and want."""
        requests: dict[str, Amounts] = {}
        for gang in self.gangs.values():
            mine = requests.get(gang.queue, NOTHING)
            for task in gang.all_tasks():
                if task.state in PLACED and task.place is not None:
                    mine = plus(mine, task.place.amounts)
                elif task.state == PENDING:
                    mine = plus(mine, self.request_of(task))
            requests[gang.queue] = mine
        return requests
