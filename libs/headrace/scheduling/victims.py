"""What could be taken from running gangs, piece by piece, and what is lost of it.

Rule: a chunk is taken whole or not at all; who would come last in turn order loses first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from headrace.scheduling.amounts import Amounts, total
from headrace.scheduling.chunks import Held, held_of, next_chunk, standing_of, without
from headrace.scheduling.eviction_budgets import EvictionBudgets
from headrace.scheduling.gangs import BELOW, EVICTED, PENDING, PIPELINED, PLACED, Gang, Task
from headrace.scheduling.parts import Cell
from headrace.scheduling.turns import Turns
from headrace.scheduling.world import World

Left = dict[str, list[Amounts]]  # by queue, piece by piece, what would be taken for good


class Chunk(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Tasks of one gang that are only taken together; where they are part of what it needs, only
    `after` all that comes before of the same gang.
    """

    gang: str
    queue: str
    losses: tuple[Loss, ...]
    nodes: tuple[str, ...]
    amounts: Amounts
    after: bool


class Loss(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One task of a chunk, where it is and what it gives, of which parts of the fleet."""

    task: Task
    node: str
    amounts: Amounts
    cell: Cell

    @property
    def is_lost(self) -> bool:
        """Whether it is without a place."""
        return self.task.state in (EVICTED, PENDING)

    @property
    def is_touched(self) -> bool:
        """Whether it does not simply stay."""
        return self.task.state in (EVICTED, PENDING, PIPELINED)


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one search: of which queues which gangs may be touched, which of those keep
    their minimum, and whether what would be lost of chunks is acceptable. `first`: the gang comes
    before those that it would evict, whoever's turn it were.
    """

    reaches: Callable[[str], bool]
    may_lose: Callable[[Gang], bool]
    keeps_minimum: Callable[[Gang], bool]
    accepts: Callable[[Sequence[Chunk]], bool]
    first: bool = False


def chunks_of(
    world: World, gang: Gang, search: Search, budgets: EvictionBudgets
) -> Iterator[Chunk]:
    """What could be taken, in the order in which it would be: the last in turn first."""
    held: dict[str, Held] = {}
    upcoming: dict[str, Chunk] = {}
    turns = Turns(world.accounts, lambda name: upcoming[name].amounts, victims=True)

    def offer(other: Gang) -> None:
        kept = other.protected_minimum or search.keeps_minimum(other)
        tasks = next_chunk(other, held[other.name], surplus_only=kept)
        if tasks:
            left = without(held[other.name], tasks)
            after = standing_of(other, left) == BELOW
            upcoming[other.name] = _chunk(world, other, tasks, after=after)
            turns.put(other, standing_of(other, held[other.name]))

    for queue, others in world.holders.items():
        if queue in world.accounts and search.reaches(queue):
            for other in others.values():
                if other is gang or other.name in world.reservations:
                    continue  # who waits with a reservation only has what this turn gave it
                if not other.any_in(PLACED) or not budgets.allow((other,)):
                    continue
                if search.may_lose(other):
                    held[other.name] = held_of(other)
                    offer(other)
    while (name := turns.take()) is not None:
        chunk = upcoming[name]
        yield chunk
        held[name] = without(held[name], [loss.task for loss in chunk.losses])
        offer(world.gangs[name])


def _chunk(world: World, gang: Gang, tasks: Sequence[Task], *, after: bool) -> Chunk:
    losses = tuple(
        Loss(task=task, node=place.node, amounts=place.amounts, cell=world.cell_at(place))
        for task in tasks
        if (place := task.coming or task.place) is not None
    )
    return Chunk(
        gang=gang.name,
        queue=gang.queue,
        losses=losses,
        nodes=tuple(sorted({loss.node for loss in losses})),
        amounts=total(loss.amounts for loss in losses),
        after=after,
    )


def is_touched(chunk: Chunk) -> bool:
    """Whether any of it does not simply stay."""
    return any(loss.is_touched for loss in chunk.losses)


def stopped_of(world: World, chunks: Sequence[Chunk]) -> list[Gang]:
    """The gangs that would have to stop something that runs, to move or for good."""
    names = dict.fromkeys(chunk.gang for chunk in chunks if any(map(_stops, chunk.losses)))
    return [world.gangs[name] for name in names]


def left_of(chunks: Sequence[Chunk]) -> Left:
    """What of these chunks is without a place."""
    left: Left = {}
    for chunk in chunks:
        lost = [loss.amounts for loss in chunk.losses if loss.is_lost]
        if lost:
            left.setdefault(chunk.queue, []).append(total(lost))
    return left


def _stops(loss: Loss) -> bool:
    return loss.is_touched and loss.task.place is not None
