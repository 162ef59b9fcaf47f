"""Which searches a gang may have for what other queues hold.

Rule: first what its queue may take of all GPUs; then, where the tree names parts of the fleet and
the gang can be placed nowhere else, what the queue is guaranteed of such a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from headrace.scheduling.amounts import GPU
from headrace.scheduling.gangs import PLACED, Gang, next_tasks
from headrace.scheduling.legality import Standing, Taker, is_legal, may_lose, may_take
from headrace.scheduling.part_legality import (
    PartTaker,
    Pieces,
    Stakes,
    is_legal_of_part,
    may_lose_part,
    may_take_part,
    spares_quotas,
)
from headrace.scheduling.placing import taker_of
from headrace.scheduling.protection import Taking, safe_from_reclaim, taking
from headrace.scheduling.victims import Chunk, Search, left_of
from headrace.scheduling.world import World

Standings = dict[str, Standing]


def searches(world: World, gang: Gang) -> Iterator[Search]:
    """What may be tried for the gang as it asks now, one after the other."""
    standings = world.accounts.standings()
    taker = taker_of(world, gang)
    kept = taking(world.settings, gang.queue, taker.request)
    if may_take(standings, taker):
        yield Search(
            reaches=partial(_is_reclaimable, standings, taker),
            may_lose=partial(_may_go, world, standings, gang, None),
            keeps_minimum=partial(_keeps_minimum, world, kept),
            accepts=partial(_accepts, world, standings, taker),
        )
    for part in part_takers(world, gang, again=True):
        if may_take_part(standings, part):
            yield Search(
                reaches=partial(may_lose_part, standings, part),
                may_lose=partial(_may_go, world, standings, gang, part.part),
                keeps_minimum=partial(_keeps_minimum, world, kept),
                accepts=partial(_accepts_of_part, standings, part),
                first=True,
            )


def stakes_of(world: World, gang: Gang, *, again: bool) -> list[tuple[int, int]]:
    """What the gang has to have of parts of the fleet, by their numbers."""
    return [(taker.part, taker.milli) for taker in part_takers(world, gang, again=again)]


def part_takers(world: World, gang: Gang, *, again: bool) -> Iterator[PartTaker]:
    """The gang, for each part that all of what it asks for next has to be of."""
    if not world.parted.any:
        return
    tasks = [task for task in next_tasks(gang, again=again) if task.shape.devices]
    if not tasks:
        return
    milli = sum(world.request_of(task)[GPU] for task in tasks)
    shapes = dict.fromkeys(task.shape for task in tasks)
    needs = [world.parted.needs(shape) for shape in shapes]
    for number in needs[0]:
        if all(number in need for need in needs):
            yield PartTaker(queue=gang.queue, part=number, milli=milli)


def is_spared(world: World, standings: Standings, gang: Gang, other: Gang) -> bool:
    """Whether `other` holds anything that its queues are guaranteed of a part of the fleet."""
    if not world.parted.any:
        return False
    pieces = [(other.queue, _held_by(world, other))]
    return not spares_quotas(standings, gang.queue, pieces)


def _is_reclaimable(standings: Standings, taker: Taker, queue: str) -> bool:
    return queue != taker.queue and may_lose(standings, taker, queue)


def _may_go(
    world: World, standings: Standings, gang: Gang, number: int | None, other: Gang
) -> bool:
    if not other.preemptible or is_spared(world, standings, gang, other):
        return False
    return number is None or number in _held_by(world, other)


def _keeps_minimum(world: World, taker: Taking, other: Gang) -> bool:
    return safe_from_reclaim(world.accounts, taker, other, world.now_us)


def _accepts(world: World, standings: Standings, taker: Taker, chunks: Sequence[Chunk]) -> bool:
    if not is_legal(standings, taker, left_of(chunks)):
        return False
    return not world.parted.any or spares_quotas(standings, taker.queue, _pieces(chunks))


def _accepts_of_part(standings: Standings, taker: PartTaker, chunks: Sequence[Chunk]) -> bool:
    return is_legal_of_part(standings, taker, _pieces(chunks))


def _pieces(chunks: Sequence[Chunk]) -> Pieces:
    """What of these chunks is without a place."""
    for chunk in chunks:
        lost = [loss for loss in chunk.losses if loss.is_lost]
        stakes: dict[int, int] = {}
        for loss in lost:
            for number in loss.cell:
                stakes[number] = stakes.get(number, 0) + loss.amounts[GPU]
        if lost:
            yield chunk.queue, stakes


def _held_by(world: World, gang: Gang) -> Stakes:
    stakes: dict[int, int] = {}
    for task in gang.all_tasks():
        place = task.coming or task.place
        if task.state in PLACED and place is not None:
            for number in world.cell_at(place):
                stakes[number] = stakes.get(number, 0) + place.amounts[GPU]
    return stakes
