"""What a reservation is, and the moment at which it begins.

Rule: a reservation is made once; it may become earlier, never later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from headrace.scheduling.amounts import GPU, NOTHING, Amounts, plus
from headrace.scheduling.gangs import Gang, Place
from headrace.scheduling.parts import Cell


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
    """What a task has until a moment at the latest, and in which book of its machine."""

    queue: str
    firm: bool
    place: Place
    book: int
    until_us: int
    cell: Cell = ()


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation as it stands in a turn: one that is overdue begins now."""

    gang: Gang
    reservation: Reservation
    from_us: int
    until_us: int

    @property
    def turn(self) -> tuple[int, int, str]:
        """Who is due before whom when both are late."""
        reservation = self.reservation
        return (reservation.at_us, reservation.made_at_us, reservation.gang)

    @property
    def places(self) -> Iterator[Place]:
        """All of its seats."""
        return (seat.place for seat in self.reservation.seats)

    @property
    def firm(self) -> bool:
        """Whether what is reserved counts as what cannot be preempted."""
        return self.gang.protected_minimum or not self.gang.preemptible


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a gang would like to have now, and whether that could be taken from it again."""

    gang: Gang
    place: Place
    firm: bool


class Future:
    """The moment at which a reservation begins: what has ended by then, of every queue with all
    below it, and on the machines that count.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.nodes = dict.fromkeys(place.node for place in claim.places)
        self.ended: dict[str, Amounts] = {}
        self.ended_firm: dict[str, Amounts] = {}
        self.ended_parts: dict[tuple[str, int], tuple[int, int]] = {}  # in all and firm

    def end(self, path: Iterable[str], amounts: Amounts, *, firm: bool, cell: Cell) -> None:
        """That much of a queue, and of all above it, has ended by then."""
        for queue in path:
            for number in cell:
                milli, firm_milli = self.ended_parts.get((queue, number), (0, 0))
                more = amounts[GPU]
                ended = (milli + more, firm_milli + more if firm else firm_milli)
                self.ended_parts[queue, number] = ended
            self.ended[queue] = plus(self.ended.get(queue, NOTHING), amounts)
            if firm:
                self.ended_firm[queue] = plus(self.ended_firm.get(queue, NOTHING), amounts)
