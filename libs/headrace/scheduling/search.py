"""Whom to evict or move so that a gang can be placed.

Rule: a scenario is a set of chunks of running gangs; it is tried as a whole in turn order (the gang
and everybody it would evict are placed again) and counts only if the gang is placed, the rules
accept who is left without a place and the budgets who has to stop, and nobody is who need not be.
Of scenarios that are alike one is tried. Evictions are counted, never timed. First those of one
machine, then those that reach over several.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, count

from headrace.scheduling.amounts import Amounts
from headrace.scheduling.eviction_budgets import EvictionBudgets
from headrace.scheduling.gangs import (
    EVICTED,
    Gang,
    next_tasks,
)
from headrace.scheduling.likeness import Likeness
from headrace.scheduling.lineup import Lineup
from headrace.scheduling.placing import place_gang, request_of
from headrace.scheduling.ranking import could_hold
from headrace.scheduling.reclaiming import stakes_of
from headrace.scheduling.topology import could_gather
from headrace.scheduling.turns import Stakes, Turns
from headrace.scheduling.victims import Chunk, Chunks, Room, Search, is_touched, stopped_of
from headrace.scheduling.world import World

ALIKE_PER_STEP = 8  # told apart in about the time of one try
STEPS_PER_TASK = 8  # beyond those of the settings: a large gang takes more tries


def make_room(world: World, gang: Gang, search: Search) -> bool:
    """Evict or move the fewest that let the gang be placed; nothing has changed if this is false."""
    tasks = next_tasks(gang, again=True)
    fits_alone = all(could_hold(world, task.shape) for task in tasks)
    room = Room(world, gang, search)
    if not tasks or not fits_alone or not could_gather(world, gang, tasks, room.of):
        return False
    budgets = EvictionBudgets(world)
    chunks = Chunks(world, gang, search, budgets)
    if not any(True for _ in chunks):
        return False
    scenarios = _Scenarios(world, gang, (search, budgets), chunks)
    return any(scenarios.solve(len(tasks), generate) for generate in (_local, _reaching))


class _Scenarios:
    """The scenarios of one search, counted over all of it."""

    def __init__(
        self,
        world: World,
        gang: Gang,
        rules: tuple[Search, EvictionBudgets],
        chunks: Chunks,
    ) -> None:
        self.world = world
        self.gang = gang
        self.search, self.budgets = rules
        self.chunks = chunks
        self.free_milli = world.free_milli
        self.asked = [world.request_of(t)[0] for t in next_tasks(gang, again=True)]
        memory = world.fleet.memory_max_bytes
        self.least = [t.shape.amounts(memory)[0] for t in next_tasks(gang, again=True)]
        self._lineup = world.while_still(Lineup)
        self._likeness = world.while_still(Likeness)
        self._left = world.settings.steps_max + STEPS_PER_TASK * len(self.asked)
        self._alike = 0  # scenarios that were not tried, as one like them was
        self._failed: set[tuple[int, Hashable]] = set()

    def _asks(self, name: str) -> Amounts:
        gang = self.world.gangs[name]
        known = self._lineup.waiting.get(self._lineup.root_of(name), {})
        if name in known and gang is not self.gang and not gang.any_in((EVICTED,)):
            return known[name]  # one that lost something asks for that too
        return request_of(self.world, gang, again=True)

    def _needs(self, name: str) -> Stakes:
        return stakes_of(self.world, self.world.gangs[name], again=True)

    def make(self, chunk: Chunk, room: dict[str, int]) -> int:
        """Add to the room of each machine what the chunk gives there; how much of that room was
        there before, on machines that are new to it.
        """
        before = 0
        for loss in chunk.losses:
            if loss.node not in room:
                room[loss.node] = self.world.machines[loss.node].free_milli
                before += room[loss.node]
            room[loss.node] += loss.amounts[0]
        return before

    def solve(self, wanted: int, generate: Generate) -> bool:
        """Place more and more of the gang, each time keeping who had to go for it so far."""
        chosen: tuple[int, ...] = ()
        size = 1
        while True:
            size = min(size, wanted)
            found = self._try_all(size, chosen, generate, final=size == wanted)
            if found is None:
                return False
            if size == wanted:
                return True
            chosen, size = found, size * 2

    def _try_all(
        self, size: int, chosen: tuple[int, ...], generate: Generate, *, final: bool
    ) -> tuple[int, ...] | None:
        asked = sum(self.asked[:size])
        for picked in generate(self, chosen, size):
            scenario = self._whole([*chosen, *picked])
            if not scenario or (size, scenario) in self._failed:
                continue
            freed = sum(self.chunks[i].amounts[0] for i in scenario)
            if self.free_milli + freed < asked:
                continue
            steps = 1 + sum(len(self.chunks[i].losses) for i in scenario)
            self._left -= steps
            if self._left < 0:
                return None
            like = self._likeness.key(self.gang, [self.chunks[i] for i in scenario]) or scenario
            if (size, like) in self._failed:
                self._failed.add((size, scenario))
                self._alike += 1
                self.world.steps += not self._alike % ALIKE_PER_STEP
                continue
            mark = self.world.mark()
            if self._try(scenario, size):
                gone = tuple(i for i in scenario if is_touched(self.chunks[i]))
                if not final:
                    self.world.back_to(mark)
                return gone
            self.world.back_to(mark)
            self._failed |= {(size, scenario), (size, like)}
        return None

    def _whole(self, picked: Sequence[int]) -> tuple[int, ...]:
        """With what has to go before what was picked."""
        before = [first for index in picked for first in self.chunks.before(index)]
        return tuple(sorted(dict.fromkeys([*picked, *before])))

    def _is_refused(self, chunks: Sequence[Chunk], size: int) -> bool:
        """Whether, with these evicted, the rules forbid it wherever the gang goes: beside it less is
        left than any of them needs, so that none finds another place.
        """
        memory = self.world.fleet.memory_max_bytes
        left_milli = self.world.free_milli - sum(self.least[:size])
        if any(loss.least_milli(memory) <= left_milli for c in chunks for loss in c.losses):
            return False
        return not self.search.accepts(chunks)

    def _try(self, scenario: Sequence[int], size: int) -> bool:
        """Evict these, then place the gang and them again, in turn order."""
        world, gang = self.world, self.gang
        chunks = [self.chunks[i] for i in scenario]
        for chunk in chunks:
            for loss in chunk.losses:
                world.evict(loss.task)
        if self._is_refused(chunks, size):
            return False
        world.steps += 1 + sum(len(chunk.losses) for chunk in chunks)
        turns = Turns(world.accounts, self._asks, self._needs)
        served = dict.fromkeys((gang.name, *(chunk.gang for chunk in chunks)))
        if self.search.first:
            if not place_gang(world, gang, promised=True, most=size):
                return False
            del served[gang.name]
        roots = dict.fromkeys(
            map(self._lineup.root_of, served)
        )  # nobody else is before or after them
        waiting = chain.from_iterable(self._lineup.waiting.get(root, ()) for root in roots)
        for name in dict.fromkeys((*served, *waiting)):
            turns.put(world.gangs[name], world.gangs[name].standing())
        while served and (next_ := turns.take()) is not None:
            if next_ not in served:
                continue
            other = world.gangs[next_]
            if other is gang:
                if not place_gang(world, gang, promised=True, most=size):
                    return False
            elif place_gang(world, other, promised=True) and other.any_in((EVICTED,)):
                turns.put(other, other.standing())
                continue
            del served[next_]
        return self.budgets.allow(stopped_of(world, chunks)) and self.search.accepts(chunks)


Generate = Callable[[_Scenarios, Sequence[int], int], Iterator[tuple[int, ...]]]


def _local(scenarios: _Scenarios, chosen: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """With what was chosen alone, then all of one machine, as more and more could be taken; only
    of machines that could then hold one of the tasks.
    """
    if chosen:
        yield ()
    known, smallest = set(chosen), min(scenarios.asked[:size])
    room: dict[str, int] = {}
    on_node: dict[str, list[int]] = {}
    for index, chunk in enumerate(scenarios.chunks):
        scenarios.make(chunk, room)
        for node in chunk.nodes:
            on_node.setdefault(node, []).append(index)
        if index not in known:
            for node in chunk.nodes:
                if room[node] >= smallest:
                    yield tuple(on_node[node])


def _reaching(scenarios: _Scenarios, chosen: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """As more and more could be taken: all of the machines that have just enough, the smallest
    first, twice as many more each time.
    """
    if chosen:
        yield ()
    asked, smallest = sum(scenarios.asked[:size]), min(scenarios.asked[:size])
    known = set(chosen)
    room: dict[str, int] = {}
    elsewhere = total_room = scenarios.free_milli
    on_node: dict[str, list[int]] = {}
    others = (index for index, _ in enumerate(scenarios.chunks) if index not in known)
    for index in chain(chosen, others):
        chunk = scenarios.chunks[index]
        elsewhere -= scenarios.make(chunk, room)
        total_room += chunk.amounts[0]
        for node in chunk.nodes:
            on_node.setdefault(node, []).append(index)
        if index in known or total_room < asked:
            continue
        nodes = sorted(
            (node for node in on_node if room[node] >= smallest),
            key=lambda node: (room[node], on_node[node][0], node),
        )
        for most in _growing(len(nodes), _covering([room[n] for n in nodes], asked - elsewhere)):
            yield tuple(i for node in nodes[:most] for i in on_node[node])


def _covering(rooms: Sequence[int], wanted: int) -> int:
    """How many of the first are needed to have that much; more than there are when all are not."""
    have = 0
    for needed in count(0):
        if have >= wanted:
            return needed
        if needed == len(rooms):
            break
        have += rooms[needed]
    return len(rooms) + 1


def _growing(most: int, first: int) -> Iterator[int]:
    step = 1
    while first <= most:
        yield first
        if first == most:
            return
        first, step = min(most, first + step), step * 2
