"""A cluster in a turn, to try things on: every change of its books, and how it is undone again.

Rule: a task is placed, evicted and kept through `World` only, which books it on its machine and its
queue and remembers how to take it back. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from headrace.scheduling.amounts import Amounts
from headrace.scheduling.books import Books
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
from headrace.scheduling.machines import COMING, HELD, LEAVING, MachineSpec
from headrace.scheduling.settings import Settings


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
        self._undo: list[partial[None]] = []

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
        self.book(place, HELD if at_once else COMING)
        self.holders.setdefault(gang.queue, {})[gang.name] = gang
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
        gang = self.gangs[task.gang]
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible)
        gang.move(task, before)

    def _unplace(self, task: Task, place: Place, before: str, *, at_once: bool) -> None:
        gang = self.gangs[task.gang]
        self.book(place, HELD if at_once else COMING, -1)
        self.accounts.book(gang.queue, place.amounts, firm=not gang.preemptible, sign=-1)
        gang.move(task, before)
        if at_once:
            task.place = None
        else:
            task.coming = None
