"""What could be taken from running gangs, piece by piece, and what is lost of it.

Rule: a chunk is taken whole or not at all; who would come last in turn order loses first.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, count

import msgspec

from headrace.scheduling.amounts import NOTHING, Amounts, plus, total
from headrace.scheduling.chunks import Held, held_of, next_chunk, standing_of, without
from headrace.scheduling.eviction_budgets import EvictionBudgets
from headrace.scheduling.gangs import BELOW, EVICTED, PENDING, PIPELINED, Gang, Task
from headrace.scheduling.lineup import HOLDERS_PER_STEP, Lineup
from headrace.scheduling.machines import Machine
from headrace.scheduling.parts import Cell
from headrace.scheduling.turns import GangKey, Turns, gang_key
from headrace.scheduling.world import World

CHUNKS_PER_STEP = 8  # listed in about the time of one try

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

    def least_milli(self, device_memory_bytes: int) -> int:
        """What it takes at least, wherever it goes, where no device has more memory."""
        return min(self.amounts[0], self.task.shape.amounts(device_memory_bytes)[0])


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


class Chunks:
    """What could be taken, in the order in which it would be: the last in turn first. Listed only
    as far as somebody looks, while the world stands as it did at first; counted in steps.
    """

    def __init__(self, world: World, gang: Gang, search: Search, budgets: EvictionBudgets) -> None:
        self._world = world
        self._keeps_minimum = search.keeps_minimum
        self._seen: list[Chunk] = []
        self._of: dict[str, list[int]] = {}  # by gang, which of these are its own
        self._held: dict[str, Held] = {}
        self._upcoming: dict[str, Chunk] = {}  # one of each queue
        self._turns = Turns(world.accounts, lambda name: self._upcoming[name].amounts, victims=True)
        self._may_lose = partial(_may_lose, gang, search, budgets)
        self._lineup = world.while_still(Lineup)
        self._ahead = {  # by queue: how many of its holders nobody has looked at yet
            queue: len(self._lineup.holders(queue))
            for queue in world.holders
            if queue in world.accounts and search.reaches(queue)
        }
        self._again: dict[str, list[GangKey]] = {}  # by queue, who has lost something already
        self._looked = 0
        for queue in self._ahead:
            self._offer(queue)

    def __getitem__(self, index: int) -> Chunk:
        """One that was listed."""
        return self._seen[index]

    def __iter__(self) -> Iterator[Chunk]:
        """All of them; those that nobody has looked at yet are listed then."""
        for index in count():
            if index == len(self._seen) and not self._list():
                return
            yield self._seen[index]

    def before(self, index: int) -> list[int]:
        """What has to go before this one."""
        chunk = self._seen[index]
        return [i for i in self._of[chunk.gang] if i < index] if chunk.after else []

    def _list(self) -> bool:
        """List one more; whether there is one."""
        name = self._turns.take()
        if name is None:
            return False
        chunk = self._upcoming.pop(name)
        self._of.setdefault(chunk.gang, []).append(len(self._seen))
        self._seen.append(chunk)
        self._world.steps += not len(self._seen) % CHUNKS_PER_STEP
        other = self._world.gangs[name]
        kept = without(self._held[name], [loss.task for loss in chunk.losses])
        self._held[name] = kept
        insort(self._again.setdefault(other.queue, []), gang_key(other, standing_of(other, kept)))
        self._offer(other.queue)
        return True

    def _offer(self, queue: str) -> None:
        """Let the queue's next victim that has something to lose take its turn."""
        while (other := self._next_of(queue)) is not None:
            held = self._held.setdefault(other.name, held_of(other))
            kept = other.protected_minimum or self._keeps_minimum(other)
            if tasks := next_chunk(other, held, surplus_only=kept):
                after = standing_of(other, without(held, tasks)) == BELOW
                self._upcoming[other.name] = _chunk(self._world, other, tasks, after=after)
                self._turns.put(other, standing_of(other, held))
                return

    def _next_of(self, queue: str) -> Gang | None:
        """The queue's holder that comes last in turn order, of those that are left."""
        line, again = self._lineup.holders(queue), self._again.get(queue, [])
        while (ahead := self._ahead[queue]) and (not again or again[-1] < line[ahead - 1]):
            self._ahead[queue] -= 1
            self._looked += 1
            self._world.steps += not self._looked % HOLDERS_PER_STEP
            other = self._world.gangs[line[ahead - 1][-1]]
            if self._may_lose(other):
                return other
        return self._world.gangs[again.pop()[-1]] if again else None


class Room:
    """How much room there would be at most on each machine if all was taken that may be."""

    def __init__(self, world: World, gang: Gang, search: Search) -> None:
        self._given = (world, gang, search)
        self._losable: dict[str, Amounts] | None = None  # added up when somebody asks

    def of(self, machine: Machine) -> Amounts:
        """What is free of the machine or could be."""
        if self._losable is None:
            self._losable = self._sum()
        return plus(machine.free_later, self._losable.get(machine.spec.name, NOTHING))

    def _sum(self) -> dict[str, Amounts]:
        world, gang, search = self._given
        found: dict[str, Amounts] = {}
        lineup = world.while_still(Lineup)
        for queue in world.holders:
            if queue not in world.accounts or not search.reaches(queue):
                continue
            for other in lineup.gangs(queue):
                if other is gang or not search.may_lose(other):
                    continue
                held = held_of(other)
                kept = other.protected_minimum or search.keeps_minimum(other)
                if next_chunk(other, held, surplus_only=kept):
                    for task in chain.from_iterable(held.values()):
                        if (place := task.coming or task.place) is not None:
                            found[place.node] = plus(found.get(place.node, NOTHING), place.amounts)
        return found


def _may_lose(gang: Gang, search: Search, budgets: EvictionBudgets, other: Gang) -> bool:
    return other is not gang and search.may_lose(other) and budgets.allow((other,))


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
