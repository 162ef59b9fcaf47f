"""A cluster in a turn, to try things on: every change of its books, and how it is undone again.

Rule: a task is placed, evicted and kept through `World` only, which books it on its machine and its
queue and remembers how to take it back. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from headrace.scheduling.amounts import Amounts
from headrace.scheduling.banks import COMING, HELD, LEAVING
from headrace.scheduling.books import Books
from headrace.scheduling.claims import Claim, Holding, Reservation, Wish
from headrace.scheduling.division import QueueSpec
from headrace.scheduling.gangs import (
    BOUND,
    EVICTED,
    PENDING,
    PIPELINED,
    RUNNING,
    Gang,
    Place,
    Shape,
    Task,
)
from headrace.scheduling.horizon import Horizon
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.settings import Settings

T = TypeVar("T")


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """For whom, and by which action, a gang loses what it has."""

    rule: str
    gang: str


class World(Books):
    """The books of a turn that can be taken back to any mark."""

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
        super().__init__(machines, queues, gangs, now_us=now_us, settings=settings, usage=usage)
        self.gains: dict[str, Gain] = {}  # by the gang that loses something
        self.reservations: Mapping[str, Reservation] = {}
        self._horizon = Horizon()
        self._undo: list[partial[None]] = []
        self._made: dict[object, tuple[object, Any]] = {}

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Take back everything since the mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def while_still(self, make: Callable[[World], T]) -> T:
        """What `make` makes of the world as it stands: made again only when something has changed
        that was not taken back.
        """
        moment = (self.edition, self._undo[-1] if self._undo else None)
        known = self._made.get(make)
        if known is None or known[0] != moment:
            known = self._made[make] = (moment, make(self))
        made: T = known[1]
        return made

    def place(self, task: Task, place: Place, *, at_once: bool) -> None:
        """Give a waiting or evicted task a place: at once, or promised."""
        gang, before = self.gangs[task.gang], task.state
        self.book(place, HELD if at_once else COMING)
        self.holders.setdefault(gang.queue, {})[gang.name] = gang
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

    def changed(self, mark: int) -> list[Task]:
        """The tasks that were placed, evicted or moved since the mark, in that order."""
        found = (step.args[0] for step in self._undo[mark:])
        return list(dict.fromkeys(task for task in found if isinstance(task, Task)))

    def note(self, rule: str, gainer: Gang, mark: int) -> None:
        """Remember for whom gangs lose what they have, of all that changed since the mark."""
        gain = Gain(rule=rule, gang=gainer.name)
        for task in self.changed(mark):
            if task.gang == gainer.name or task.place is None or task.state == RUNNING:
                continue
            self._undo.append(partial(self._gains, task.gang, self.gains.get(task.gang)))
            self.gains[task.gang] = gain

    def _gains(self, gang: str, gain: Gain | None) -> None:
        if gain is None:
            del self.gains[gang]
        else:
            self.gains[gang] = gain

    def reshape(self, task: Task, shape: Shape) -> None:
        """Let a waiting task ask for something else."""
        self._undo.append(partial(setattr, task, "shape", task.shape))
        task.shape = shape

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
        names = [name for name in sorted(reservations) if name in self.gangs]
        if not names and not self.reservations:
            return
        self._undo.append(partial(self._reserved, self.reservations, self._horizon))
        self.reservations = reservations
        claims = [self.claim(reservations[name]) for name in names]
        self._horizon = Horizon(claims, self.accounts, self.machines, self.cell_at)
        self._horizon.enter(self._ending_by(self._horizon.last_us))
        for task, place in self._given():
            self._horizon.add(task, self._holding(task, place, task.state))

    def claim(self, reservation: Reservation) -> Claim:
        """The reservation with its end; one that is overdue begins now."""
        gang = self.gangs[reservation.gang]
        from_us = max(self.now_us, reservation.at_us)
        until_us = from_us + self.duration_us(gang)
        return Claim(gang=gang, reservation=reservation, from_us=from_us, until_us=until_us)

    def ends_at_us(self, gang: Gang, state: str) -> int:
        """When what the gang has in this state is free again at the latest."""
        if state == RUNNING or (state == BOUND and gang.started_at_us is not None):
            return self.end_of(gang)  # what a gang gets that runs ends with it
        from_us = self.now_us
        if state == PIPELINED:
            from_us = max(from_us, gang.room_by_us or from_us + self.settings.release_us)
        return from_us + self.duration_us(gang)

    def may_backfill(self, task: Task, place: Place, state: str) -> bool:
        """Whether the task may have this place, in that state, and breaks no other reservation."""
        if not self.reservations:
            return True
        gang = self.gangs[task.gang]
        until_us = self.ends_at_us(gang, state)
        wish = Wish(gang=gang, place=place, firm=task.firm)
        return self._horizon.allows(wish, self.now_us, until_us)

    def due(self) -> list[Gang]:
        """Who waits and whose reservation has begun, in the order of their turns."""
        names = [name for name in self.reservations if name in self.gangs]
        claims = [self.claim(self.reservations[name]) for name in names]
        due = [claim for claim in claims if claim.reservation.at_us <= self.now_us]
        return [claim.gang for claim in sorted(due, key=lambda claim: claim.turn)]

    def may_take_seat(self, task: Task, place: Place) -> bool:
        """Whether the task may have this at once because of its gang's own reservation."""
        gang = self.gangs[task.gang]
        if self.now_us < self.reservations[gang.name].at_us:
            return self.may_backfill(task, place, BOUND)
        return self._horizon.allows_due(gang, place)

    def shared_by_others(self, gang: Gang, node: str) -> list[Place]:
        """What of the machine's shared devices is promised to others before the gang would end."""
        return self._horizon.shared_by_others(gang, node, self.ends_at_us(gang, BOUND))

    def go_to(self, now_us: int) -> None:
        """Look at the world as of another moment, until that is taken back."""
        self._undo.append(partial(setattr, self, "now_us", self.now_us))
        self.now_us = now_us

    def set_aside(self, claim: Claim, sign: int = 1) -> None:
        """Let a reservation begin or, with `sign` -1, end."""
        gang = claim.gang
        for place in claim.places:
            self.book(place, COMING, sign)
            self.accounts.book(gang.queue, place, firm=claim.firm, sign=sign)
        (self._horizon.begin if sign > 0 else self._horizon.end)(gang.name)
        self._undo.append(partial(self._unset_aside, claim, -sign))

    def _unset_aside(self, claim: Claim, sign: int) -> None:
        self.set_aside(claim, sign)
        self._undo.pop()

    def _reserved(self, reservations: Mapping[str, Reservation], horizon: Horizon) -> None:
        self.reservations, self._horizon = reservations, horizon

    def _ending_by(self, last_us: int) -> Iterator[tuple[Task, Holding]]:
        for until_us, name in self.ends:
            if until_us > last_us:
                return
            for task in self.gangs[name].all_tasks():
                if task.state == RUNNING and task.place is not None:
                    yield task, self._holding(task, task.place, RUNNING)

    def _given(self) -> Iterator[tuple[Task, Place]]:
        for task in self.changed(0):
            place = task.coming or task.place
            if task.state in (BOUND, PIPELINED) and place is not None:
                yield task, place

    def _holding(self, task: Task, place: Place, state: str) -> Holding:
        gang = self.gangs[task.gang]
        return Holding(
            queue=gang.queue,
            firm=task.firm,
            place=place,
            book=COMING if state == PIPELINED else HELD,
            until_us=self.ends_at_us(gang, state),
            cell=self.cell_at(place),
        )

    def _count(self, task: Task, place: Place, state: str) -> None:
        gang = self.gangs[task.gang]
        self.accounts.book(gang.queue, place, firm=task.firm)
        if self.reservations:
            self._horizon.add(task, self._holding(task, place, state))

    def _discount(self, task: Task, place: Place) -> None:
        gang = self.gangs[task.gang]
        self.accounts.book(gang.queue, place, firm=task.firm, sign=-1)
        if self.reservations:
            self._horizon.remove(task, self._holding(task, place, RUNNING))

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
        self.book(place, book, -1)
        self.book(place, other)

    def _evict_again(self, task: Task) -> None:
        self.evict(task)
        self._undo.pop()

    def _unevict(self, task: Task, place: Place, before: str) -> None:
        self._turn_over(place, LEAVING, HELD)
        self._count(task, place, RUNNING)
        self.gangs[task.gang].move(task, before)

    def _unplace(self, task: Task, place: Place, before: str, *, at_once: bool) -> None:
        self.book(place, HELD if at_once else COMING, -1)
        self._discount(task, place)
        self.gangs[task.gang].move(task, before)
        if at_once:
            task.place = None
        else:
            task.coming = None
