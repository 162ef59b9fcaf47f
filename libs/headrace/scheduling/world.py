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
from headrace.scheduling.division import QueueSpec, divide_amounts
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
from headrace.scheduling.horizon import NEVER_US, Claim, Future, Holding, Horizon, Reservation
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

    spread_gpu: bool = False  # GPU tasks on the emptiest machine instead of the fullest
    spread_cpu: bool = False
    spread_devices: bool = False  # shares on the emptiest device instead of the fullest
    levels: Mapping[str, tuple[str, ...]] = {}  # labels of each topology, widest first
    staleness_grace_us: int = 60_000_000
    usage_strength: int = 0
    max_duration_us: int = 86_400_000_000  # of a gang that has none of its own
    release_us: int = 60_000_000  # what is being released is gone after that
    reserve_after_us: int = 600_000_000  # a gang that has waited longer gets a reservation
    reservations_max: int = 8
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
        self.holdable: dict[Shape, bool] = {}  # whether any machine could hold it, if empty
        self.reservations: Mapping[str, Reservation] = {}
        self._horizon = Horizon(())
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
        self._count(task, place, BOUND if at_once else PIPELINED)
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
        self._discount(task, place)
        self.gangs[task.gang].move(task, EVICTED)
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

    def reserve_for(self, reservations: Mapping[str, Reservation]) -> None:
        """Keep these reservations, by gang, from now on."""
        self.reservations = reservations
        claims = [
            self.claim(self.gangs[name], reservations[name])
            for name in sorted(reservations)
            if name in self.gangs
        ]
        self._horizon = Horizon([Future(claim, *self._then(claim)) for claim in claims])
        if claims:
            self._horizon.enter(self._holdings())

    def claim(self, gang: Gang, reservation: Reservation) -> Claim:
        """The reservation with its end; one that is overdue begins now."""
        from_us = max(self.now_us, reservation.at_us)
        until_us = from_us + self.duration_us(gang)
        return Claim(gang=gang, reservation=reservation, from_us=from_us, until_us=until_us)

    def duration_us(self, gang: Gang) -> int:
        """How long the gang may run."""
        return gang.max_duration_us or self.settings.max_duration_us

    def ends_at_us(self, gang: Gang, state: str) -> int:
        """When what the gang has in this state is free again at the latest."""
        if state == STUCK:
            return NEVER_US
        begins_us = self.now_us
        if state == PIPELINED:
            begins_us += self.settings.release_us
        elif state == RUNNING and gang.started_at_us is not None:
            begins_us = gang.started_at_us
        return begins_us + self.duration_us(gang)

    def may_backfill(self, gang: Gang, place: Place, state: str) -> bool:
        """Whether the gang may have this place, in that state, and breaks no other reservation."""
        until_us = self.ends_at_us(gang, state)
        return self._horizon.allows(gang, place, self.now_us, until_us)

    def go_to(self, now_us: int) -> None:
        """Look at the world as of another moment, until that is taken back."""
        self._undo.append(partial(setattr, self, "now_us", self.now_us))
        self.now_us = now_us

    def set_aside(self, claim: Claim, sign: int = 1) -> None:
        """Let a reservation begin or, with `sign` -1, end."""
        gang = claim.gang
        for place in (seat.place for seat in claim.reservation.seats):
            self.machines[place.node].book(place, COMING, sign)
            self.touched.append(place.node)
            self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible, sign=sign)
        self._undo.append(partial(self._unset_aside, claim, -sign))

    def _unset_aside(self, claim: Claim, sign: int) -> None:
        self.set_aside(claim, sign)
        self._undo.pop()

    def _then(self, claim: Claim) -> tuple[list[MachineSpec], Accounts]:
        nodes = dict.fromkeys(seat.place.node for seat in claim.reservation.seats)
        return [self.machines[node].spec for node in nodes], self.accounts.emptied()

    def _holdings(self) -> Iterator[tuple[Task, Holding]]:
        for gang in self.gangs.values():
            for task in gang.all_tasks():
                place = task.coming if task.state == PIPELINED else task.place
                if place is not None and (task.state in PLACED or task.state == STUCK):
                    yield task, self._holding(gang, place, task.state)

    def _holding(self, gang: Gang, place: Place, state: str) -> Holding:
        until_us = self.ends_at_us(gang, state)
        return Holding(queue=gang.queue, firm=not gang.preemptible, place=place, until_us=until_us)

    def _count(self, task: Task, place: Place, state: str) -> None:
        gang = self.gangs[task.gang]
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible)
        if self.reservations:
            self._horizon.add(task, self._holding(gang, place, state))

    def _discount(self, task: Task, place: Place) -> None:
        gang = self.gangs[task.gang]
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible, sign=-1)
        if self.reservations:
            self._horizon.remove(task)

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
        self._count(task, place, RUNNING)
        self.gangs[task.gang].move(task, before)

    def _unplace(self, task: Task, place: Place, before: str, *, at_once: bool) -> None:
        self.machines[place.node].book(place, HELD if at_once else COMING, -1)
        self.touched.append(place.node)
        self._discount(task, place)
        self.gangs[task.gang].move(task, before)
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
