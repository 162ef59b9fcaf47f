"""What is promised to gangs that wait for a large piece: their reservations, and who may pass them.

Rule: a reservation says which room a gang has at which moment. Whoever is placed before it must be
gone by then (started plus maximum duration) or leave that room, and its queue's limits, free then.
As occupation only grows where a reservation begins, those moments are all that has to be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from headrace.scheduling.accounts import Accounts
from headrace.scheduling.amounts import GPU, NOTHING, Amounts, minus, plus, total
from headrace.scheduling.banks import COMING, HELD
from headrace.scheduling.claims import Claim, Future, Holding, Wish
from headrace.scheduling.gangs import Gang, Place, Task
from headrace.scheduling.machines import Machine
from headrace.scheduling.parts import Cell

NEVER_US = 1 << 62


class Horizon:
    """The future of every reservation, as the difference from what is booked at this moment; kept
    up with what is placed and evicted in a turn.
    """

    def __init__(
        self,
        claims: Sequence[Claim] = (),
        accounts: Accounts | None = None,
        machines: Mapping[str, Machine] | None = None,
        cell_at: Callable[[Place], Cell] = lambda _: (),
    ) -> None:
        self._accounts = accounts or Accounts({})
        self._machines = machines or {}
        self._cell_at = cell_at
        self._claims = {claim.gang.name: claim for claim in claims}
        self._sizes = {c.gang.name: total(place.amounts for place in c.places) for c in claims}
        self._futures = sorted(map(Future, claims), key=lambda f: f.claim.from_us)
        self._here: dict[str, dict[tuple[str, str], Holding]] = {
            node: {} for future in self._futures for node in future.nodes
        }  # what ends in time to matter, on the machines that count
        self._given: dict[tuple[str, str], Holding] = {}  # in this turn
        self._begun: dict[str, None] = {}  # reservations that are booked like anything else
        self._seated: Counter[str] = Counter()  # tasks, by gang: what these have they need no more
        # by gang, the seats for which none of its tasks waits, less what waits elsewhere
        self._vacant = {c.gang.name: Counter(c.places) for c in claims}

    @property
    def last_us(self) -> int:
        """When the last reservation begins."""
        return self._futures[-1].claim.from_us if self._futures else -1

    def enter(self, holdings: Iterable[tuple[Task, Holding]]) -> None:
        """Enter what runs at the beginning of a turn, the first to end first, at least all that
        ends by `last_us`.
        """
        sums: dict[tuple[str, bool, Cell], Amounts] = {}
        left = iter(self._futures)
        future = next(left, None)
        for task, holding in holdings:
            while future is not None and future.claim.from_us < holding.until_us:
                self._end_all(future, sums)
                future = next(left, None)
            key = (holding.queue, holding.firm, holding.cell)
            sums[key] = plus(sums.get(key, NOTHING), holding.place.amounts)
            if holding.place.node in self._here:
                self._here[holding.place.node][task.gang, task.name] = holding
        while future is not None:
            self._end_all(future, sums)
            future = next(left, None)

    def add(self, task: Task, holding: Holding) -> None:
        """A task has got something."""
        self._given[task.gang, task.name] = holding
        self._seat(task, holding, 1)
        if holding.place.node in self._here:
            self._here[holding.place.node][task.gang, task.name] = holding
        self._ends(holding, holding.place.amounts)

    def remove(self, task: Task, running: Holding) -> None:
        """A task has lost what it was given in this turn or, without that, has as it is running."""
        holding = self._given.pop((task.gang, task.name), running)
        self._seat(task, holding, -1)
        if holding.place.node in self._here:
            self._here[holding.place.node].pop((task.gang, task.name), None)
        self._ends(holding, minus(NOTHING, holding.place.amounts))

    def _seat(self, task: Task, holding: Holding, sign: int) -> None:
        if task.gang not in self._claims:
            return
        if holding.book == HELD:
            self._seated[task.gang] += sign
            return
        vacant = self._vacant[task.gang]
        vacant[holding.place] -= sign
        if not vacant[holding.place]:
            del vacant[holding.place]

    def begin(self, gang: str) -> None:
        """Its reservation is booked from now on."""
        self._begun[gang] = None

    def end(self, gang: str) -> None:
        """Its reservation is not booked any more."""
        self._begun.pop(gang, None)

    def allows(self, wish: Wish, from_us: int, until_us: int) -> bool:
        """Whether every other reservation can still be kept if the wish is granted in between."""
        others = self._others(wish.gang)
        return all(
            self._has_room(future, wish, others)
            for future in self._futures
            if future.claim.gang.name in others and from_us <= future.claim.from_us < until_us
        )

    def allows_due(self, gang: Gang, place: Place) -> bool:
        """Whether a gang whose reservation has begun may take this: those that were to begin before
        it come first, and those after it wait for it as long as it had to wait.
        """
        mine = self._claims[gang.name]
        wish, turn = Wish(gang=gang, place=place, firm=mine.firm), mine.turn
        before = [name for name in self._others(gang) if self._claims[name].turn < turn]
        return all(
            self._has_room(future, wish, before)
            for future in self._futures
            if future.claim.gang.name in before
        )

    def shared_by_others(self, gang: Gang, node: str, until_us: int) -> list[Place]:
        """The shared devices of the machine that are promised to others from a moment before."""
        return [
            place
            for name in self._others(gang)
            if (claim := self._claims[name]).from_us < until_us
            for place in claim.places
            if place.node == node and place.devices
        ]

    def _others(self, gang: Gang) -> list[str]:
        """Who else has what is reserved booked by that alone: neither has it, nor waits for all of
        it in this turn, which is booked then.
        """
        return [
            name
            for name, claim in self._claims.items()
            if claim.gang is not gang and not self._seated[name] and self._vacant[name]
        ]

    def _end_all(self, future: Future, sums: Mapping[tuple[str, bool, Cell], Amounts]) -> None:
        for (queue, firm, cell), amounts in sums.items():
            future.end(self._path(queue), amounts, firm=firm, cell=cell)

    def _ends(self, holding: Holding, amounts: Amounts) -> None:
        for future in self._futures:
            if holding.until_us <= future.claim.from_us:
                path = self._path(holding.queue)
                future.end(path, amounts, firm=holding.firm, cell=holding.cell)

    def _path(self, queue: str) -> list[str]:
        return self._accounts.paths.get(queue, [])

    def _has_room(self, future: Future, wish: Wish, others: Collection[str]) -> bool:
        """Whether this could be there too, then."""
        changes = list(self._changes(future.claim.from_us, others))
        if self._is_barred(future, wish, changes):
            return False
        place = wish.place
        return place.node not in future.nodes or self._still_fits(future, place, changes)

    def _changes(self, at_us: int, others: Collection[str]) -> Iterator[tuple[Claim, int]]:
        """Reservations that begin (1) or end (-1) until then. What is booked of those that are not
        among these, as the gang's own, will not be needed then.
        """
        for name, claim in self._claims.items():
            then = name in others and claim.from_us <= at_us < claim.until_us
            if change := int(then) - int(name in self._begun):
                yield claim, change

    def _is_barred(self, future: Future, wish: Wish, changes: Sequence[tuple[Claim, int]]) -> bool:
        size_now = wish.place.amounts
        for account in self._accounts.by_name[wish.gang.queue].path:
            queue = account.spec.queue
            held = minus(size_now, future.ended.get(queue, NOTHING))
            firm = minus(size_now, future.ended_firm.get(queue, NOTHING))
            for claim, sign in changes:
                if queue in self._path(claim.gang.queue):
                    size = self._sizes[claim.gang.name]
                    size = size if sign > 0 else minus(NOTHING, size)
                    held = plus(held, size)
                    firm = plus(firm, size) if claim.firm else firm
            if account.barrier(held, firm=False) is not None:
                return True
            if wish.firm and account.quota_barrier(firm) is not None:
                return True
        cell = self._cell_at(wish.place)
        return bool(cell) and self._is_part_barred(future, wish, cell, changes)

    def _is_part_barred(
        self, future: Future, wish: Wish, cell: Cell, changes: Sequence[tuple[Claim, int]]
    ) -> bool:
        """The same of each part of the fleet."""
        asked = wish.place.amounts[GPU]
        for number in cell:
            for account in self._accounts.by_name[wish.gang.queue].path:
                queue = account.spec.queue
                ended, ended_firm = future.ended_parts.get((queue, number), (0, 0))
                milli, firm_milli = asked - ended, asked - ended_firm
                for claim, sign in changes:
                    if queue in self._path(claim.gang.queue):
                        size = sign * self._stakes(claim).get(number, 0)
                        milli += size
                        firm_milli += size if claim.firm else 0
                part = (number, self._accounts.parts.all[number])
                if account.part_barrier(part, milli, firm_milli if wish.firm else 0):
                    return True
        return False

    def _stakes(self, claim: Claim) -> dict[int, int]:
        """What a reservation has of each part."""
        stakes: dict[int, int] = {}
        for place in claim.places:
            for number in self._cell_at(place):
                stakes[number] = stakes.get(number, 0) + place.amounts[GPU]
        return stakes

    def _still_fits(
        self, future: Future, place: Place, changes: Sequence[tuple[Claim, int]]
    ) -> bool:
        """Try it on the machine as it will be; the machine is as before when this returns."""
        machine = self._machines[place.node]
        here = self._here[place.node].values()
        edits = [(h.place, h.book, -1) for h in here if h.until_us <= future.claim.from_us]
        for claim, sign in changes:
            edits += [(p, COMING, sign) for p in claim.places if p.node == place.node]
        for held, book, sign in edits:
            machine.book(held, book, sign)
        found = machine.still_fits(place)
        for held, book, sign in reversed(edits):
            machine.book(held, book, -sign)
        return found
