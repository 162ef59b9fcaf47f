"""Who may take back GPUs of one part of the fleet from whom.

Rule: what a queue holds of a part within its quota of it is never taken, whoever asks. A queue that
stays within its own quota of a part may take GPUs of that part from those above their fair part of
it (their quota of it, if that is wider), whatever they are guaranteed in all: a guarantee of a part
is the more specific one. Queues are compared where their paths first part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headrace.scheduling.amounts import UNLIMITED
from headrace.scheduling.legality import PartStanding, Standing, leveled, path_up

Stakes = Mapping[int, int]  # milli-GPUs by the number of the part
Pieces = Iterable[
    tuple[str, Stakes]
]  # what would be taken, one after the other, and of which queue
Standings = Mapping[str, Standing]


class PartTaker(msgspec.Struct, frozen=True, kw_only=True):
    """Whom GPUs of one part are taken back for."""

    queue: str
    part: int
    milli: int


def may_take_part(standings: Standings, taker: PartTaker) -> bool:
    """Whether the taker stays within what it may have of the part, and something guarantees it."""
    first = standings[taker.queue].parts[taker.part]
    if first.held + taker.milli > max(first.quota, first.share) and first.quota != UNLIMITED:
        return False
    return any(_within_quota(standings[name], taker) for name in path_up(standings, taker.queue))


def may_lose_part(standings: Standings, taker: PartTaker, victim_queue: str) -> bool:
    """Whether anything of this queue could be taken for the taker at all."""
    mine, theirs = leveled(standings, taker.queue, victim_queue)
    if mine == theirs or not _within_quota(standings[mine], taker):
        return False
    part = standings[theirs].parts[taker.part]
    return _is_above(part, part.held)


def is_legal_of_part(standings: Standings, taker: PartTaker, pieces: Pieces) -> bool:
    """Whether these pieces may be taken for a queue within its quota of the part."""
    pieces = list(pieces)
    remaining: dict[str, int] = {}
    for queue, stakes in pieces:
        _, theirs = leveled(standings, taker.queue, queue)
        part = standings[theirs].parts[taker.part]
        left = remaining.get(theirs, part.held)
        if not may_lose_part(standings, taker, queue) or not _is_above(part, left):
            return False
        remaining[theirs] = left - stakes.get(taker.part, 0)
    return spares_quotas(standings, taker.queue, pieces)


def spares_quotas(standings: Standings, taker_queue: str, pieces: Pieces) -> bool:
    """Whether nothing is taken of what a queue holds within its quota of a part, at any level at
    which the taker is not in that queue itself.
    """
    remaining: dict[tuple[str, int], int] = {}
    above = path_up(standings, taker_queue)
    for queue, stakes in pieces:
        for name in path_up(standings, queue):
            if name in above:
                break
            for number, milli in stakes.items():
                part = standings[name].parts[number]
                left = remaining.get((name, number), part.held)
                if milli and part.quota and (part.quota == UNLIMITED or left <= part.quota):
                    return False
                remaining[name, number] = left - milli
    return True


def _within_quota(queue: Standing, taker: PartTaker) -> bool:
    part = queue.parts[taker.part]
    return part.quota == UNLIMITED or part.held + taker.milli <= part.quota


def _is_above(part: PartStanding, left: int) -> bool:
    """Whether that is more than its fair part, and than its quota if that is wider."""
    return part.quota != UNLIMITED and left > max(part.quota, part.share)
