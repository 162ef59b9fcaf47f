"""What is promised to gangs that wait for a large piece: their reservations, and who may pass them.

Rule: a reservation says which room a gang has at which moment. Whoever is placed before it must be
gone by then (started plus maximum duration) or leave that room, and its queue's limits, free then.
As occupation only grows where a reservation begins, those moments are all that has to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.scheduling.accounts import Accounts
from headrace.scheduling.amounts import NOTHING, Amounts, plus
from headrace.scheduling.gangs import Gang, Place, Task
from headrace.scheduling.machines import COMING, HELD, Machine, MachineSpec

NEVER_US = 1 << 62


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """Where one task goes; of whole devices only how many."""

    task: str
    place: Place


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """From `at_us` on the gang has these seats. Made once; it may become earlier, never later."""

    gang: str
    at_us: int
    made_at_us: int
    seats: tuple[Seat, ...]


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """What a task has until a moment at the latest."""

    queue: str
    firm: bool
    place: Place
    until_us: int


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation as it stands in a turn: one that is overdue begins now."""

    gang: Gang
    reservation: Reservation
    from_us: int
    until_us: int


class Future:
    """The machines of one reservation, and every queue, at the moment at which it begins."""

    def __init__(self, claim: Claim, specs: Iterable[MachineSpec], accounts: Accounts) -> None:
        self.claim = claim
        self.accounts = accounts
        self.machines = {spec.name: Machine(spec) for spec in specs}

    def book(self, holding: Holding, sign: int = 1) -> None:
        """Enter what is still held then."""
        if holding.until_us > self.claim.from_us:
            self.accounts.book(holding.queue, holding.place.amounts, firm=holding.firm, sign=sign)
            self.book_place(holding.place, HELD, sign)

    def book_claim(self, claim: Claim, sign: int = 1) -> None:
        """Enter a reservation that has begun by then and has not ended."""
        if claim.from_us <= self.claim.from_us < claim.until_us:
            gang = claim.gang
            for seat in claim.reservation.seats:
                amounts, firm = seat.place.amounts, not gang.preemptible
                self.accounts.book(gang.queue, amounts, firm=firm, sign=sign)
                self.book_place(seat.place, COMING, sign)

    def book_place(self, place: Place, book: int, sign: int = 1) -> None:
        """Enter a place, should it be on one of the machines that count."""
        machine = self.machines.get(place.node)
        if machine is not None:
            machine.book(place, book, sign)

    def has_room(self, gang: Gang, place: Place) -> bool:
        """Whether this could be there too, then."""
        firm = not gang.preemptible
        if self.accounts.barrier(gang.queue, place.amounts, firm=firm) is not None:
            return False
        machine = self.machines.get(place.node)
        return machine is None or machine.still_fits(place)


class Horizon:
    """The future of every reservation, kept up with what is placed and evicted in a turn."""

    def __init__(self, futures: Sequence[Future]) -> None:
        self._futures = futures
        self._claims = {future.claim.gang.name: future.claim for future in futures}
        self._held: dict[tuple[str, str], Holding] = {}
        for future in futures:
            for claim in self._claims.values():
                future.book_claim(claim)

    def enter(self, holdings: Iterable[tuple[Task, Holding]]) -> None:
        """Enter what is held at the beginning of a turn: each queue's total of it at once."""
        latest = sorted(
            holdings, key=lambda one: (-one[1].until_us, one[0].gang, one[0].name)
        )  # the last to end first
        sums: dict[tuple[str, bool], Amounts] = {}
        entered = 0
        named = {node for future in self._futures for node in future.machines}
        there: list[Place] = []
        for future in sorted(self._futures, key=lambda f: -f.claim.from_us):
            while entered < len(latest) and latest[entered][1].until_us > future.claim.from_us:
                one = latest[entered][1]
                key = (one.queue, one.firm)
                sums[key] = plus(sums.get(key, NOTHING), one.place.amounts)
                if one.place.node in named:
                    there.append(one.place)
                entered += 1
            for (queue, firm), amounts in sums.items():
                future.accounts.book(queue, amounts, firm=firm)
            for place in there:
                future.book_place(place, HELD)
        self._held.update(((task.gang, task.name), holding) for task, holding in latest)

    def add(self, task: Task, holding: Holding) -> None:
        """A task has got something."""
        self._held[task.gang, task.name] = holding
        for future in self._futures:
            future.book(holding)

    def remove(self, task: Task) -> None:
        """A task has lost what it had."""
        holding = self._held.pop((task.gang, task.name))
        for future in self._futures:
            future.book(holding, -1)

    def allows(self, gang: Gang, place: Place, from_us: int, until_us: int) -> bool:
        """Whether every other reservation can still be kept if the gang has this in between."""
        mine = self._claims.get(gang.name)
        return all(
            _has_room(future, gang, place, mine)
            for future in self._futures
            if future.claim.gang is not gang and from_us <= future.claim.from_us < until_us
        )


def _has_room(future: Future, gang: Gang, place: Place, mine: Claim | None) -> bool:
    """Without what the gang itself has reserved, which it will not need any more."""
    if mine is None:
        return future.has_room(gang, place)
    future.book_claim(mine, -1)
    found = future.has_room(gang, place)
    future.book_claim(mine)
    return found
