"""Who gets a reservation, and for when.

Rule: a gang that has waited long enough is told a moment at which it has its room even if everybody
runs for as long as they may: the earliest one at which it fits. Higher priority first, and waiting
raises it; of gangs alike in one queue only the first. What was reserved never moves later.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.scheduling.amounts import GPU, total
from headrace.scheduling.claims import Reservation, Seat
from headrace.scheduling.gangs import (
    BOUND,
    PIPELINED,
    PLACED,
    Gang,
    next_tasks,
)
from headrace.scheduling.placing import choices, place_gang, request_of
from headrace.scheduling.ranking import could_hold
from headrace.scheduling.seats import to_come
from headrace.scheduling.topology import could_gather
from headrace.scheduling.withdrawal import waits
from headrace.scheduling.world import World

ENDS, GIVES_BACK, TAKES = range(3)  # what happens to a gang at a moment, in this order
Change = tuple[int, str]
Moments = list[tuple[int, list[Change]]]


def renewed(world: World) -> dict[str, Reservation]:
    """The reservations that the world keeps, those earlier that can be because others ended before
    they had to, and those of gangs that have waited long enough by now; the world keeps them from
    here on. Called at the beginning of a turn, when the world keeps those that still stand
    (`withdrawal.keep`).
    """
    kept = dict(world.reservations)
    steps = Steps(world.settings.reserve_steps_max)
    kept = _improved(world, kept, steps)
    kinds = {world.lines.kind_of(name) for name in kept if waits(world.gangs[name])}
    for gang in _aged(world):
        kind = world.lines.kind_of(gang.name)
        if len(kinds) >= world.settings.reservations_max or not steps.most():
            break
        if kind in kinds:
            continue
        found = reserve(world, gang, steps)
        if found is not None:
            kinds.add(kind)
            kept = {**kept, gang.name: found}
            world.reserve_for(kept)
    return kept


class Steps:
    """What may still be looked at in a turn; one search takes half of it at most, so that the first
    does not leave the others without.
    """

    def __init__(self, left: int) -> None:
        self._left = left

    def most(self) -> int:
        """How many steps one search may take now."""
        return max(0, self._left // 2)

    def take(self, steps: int) -> None:
        """A search took that many."""
        self._left -= steps


def reserve(
    world: World, gang: Gang, steps: Steps, before_us: int | None = None
) -> Reservation | None:
    """The earliest moment at which the gang fits and its queue is not above its share, if all that
    is held is held to the last and other reservations are kept; None: at none that could be
    reached, or none before that one.
    """
    steps.take(1)
    if not any(_is_possible(world, gang) for _ in choices(world, gang)):
        return None
    mark = world.mark()
    ahead = _Ahead(world, gang, steps.most(), before_us)
    found = ahead.earliest()
    world.back_to(mark)
    steps.take(ahead.steps)
    if found is None:
        return None
    at_us, seats = found
    return Reservation(gang=gang.name, at_us=at_us, made_at_us=world.now_us, seats=seats)


def _improved(world: World, kept: dict[str, Reservation], steps: Steps) -> dict[str, Reservation]:
    for name in sorted(kept, key=lambda name: (kept[name].made_at_us, name)):
        old = kept[name]
        if old.at_us <= world.now_us or not waits(world.gangs[name]):
            continue  # it has begun, or the gang has its minimum and could only grow
        found = reserve(world, world.gangs[name], steps, old.at_us)
        if found is not None and found.at_us < old.at_us:
            better = Reservation(
                gang=name, at_us=found.at_us, made_at_us=old.made_at_us, seats=found.seats
            )
            kept = {**kept, name: better}
            world.reserve_for(kept)
    return kept


def _is_possible(world: World, gang: Gang) -> bool:
    tasks = next_tasks(gang, again=False)
    fits_alone = all(could_hold(world, task.shape) for task in tasks)
    return bool(tasks) and fits_alone and could_gather(world, gang, tasks)


class _Ahead:
    """The world at the moments to come at which somebody ends. `steps`: what was looked at."""

    def __init__(self, world: World, gang: Gang, most: int, before_us: int | None) -> None:
        self._world = world
        self._gang = gang
        self._moments = _moments(world, gang, most, before_us)
        self._marks: list[int] = []  # before each moment that has been entered
        self.steps = 0

    def earliest(self) -> tuple[int, tuple[Seat, ...]] | None:
        """Search with growing steps from the first moment at which enough is free by its numbers,
        then halve: more is free at every later moment.
        """
        low, step, last = self._promising() - 1, 1, len(self._moments) - 1
        high, seats = low, None
        while seats is None:
            if high == last:
                return None
            low, high, step = high, min(last, high + step), step * 2
            seats = self._seats_at(high)
        while high - low > 1:
            middle = (low + high) // 2
            found = self._seats_at(middle)
            if found is None:
                low = middle
            else:
                high, seats = middle, found
        return self._moments[high][0], seats

    def _promising(self) -> int:
        world, free_milli = self._world, self._world.free_milli
        asked = min(
            request_of(world, self._gang, again=False)[GPU] for _ in choices(world, self._gang)
        )
        for number, (_, changes) in enumerate(self._moments):
            free_milli += sum(_held_milli(world.gangs[name]) for kind, name in changes if not kind)
            if free_milli >= asked:
                return number
        return len(self._moments)

    def _seats_at(self, moment: int) -> tuple[Seat, ...] | None:
        """Where the gang would go then."""
        world, gang = self._world, self._gang
        self._enter(moment)
        if any(account.is_over_share() for account in world.accounts.by_name[gang.queue].path):
            return None
        mark = world.mark()
        world.go_to(self._moments[moment][0])
        tasks = next_tasks(gang, again=False)
        found = None
        for _ in choices(world, gang):
            if found is None and place_gang(world, gang, promised=True):
                found = tuple(
                    Seat(task=task.name, place=to_come(world, task.shape, place))
                    for task in tasks
                    if (place := task.coming or task.place) is not None
                )
        world.back_to(mark)
        return found

    def _enter(self, moment: int) -> None:
        if len(self._marks) > moment + 1:
            self._world.back_to(self._marks[moment + 1])
            del self._marks[moment + 1 :]
        while len(self._marks) <= moment:
            changes = self._moments[len(self._marks)][1]
            self._marks.append(self._world.mark())
            for change in changes:
                self._happen(change)
            self.steps += len(changes)

    def _happen(self, change: Change) -> None:
        kind, name = change
        world = self._world
        if kind == ENDS:
            for task in list(world.gangs[name].all_tasks()):
                if task.state in PLACED:
                    world.evict(task)
        else:
            claim = world.claim(world.reservations[name])
            world.set_aside(claim, 1 if kind == TAKES else -1)


def _held_milli(gang: Gang) -> int:
    held = (t.coming or t.place for t in gang.all_tasks() if t.state in PLACED)
    return total(place.amounts for place in held if place is not None)[GPU]


def _moments(world: World, gang: Gang, most: int, before_us: int | None) -> Moments:
    """What ends and begins at each of the next moments: first those who end, then reservations.
    What is being released counts as gone at the first.
    """
    first_us = world.now_us + (world.settings.release_us if world.leaving else 0)
    timed = [(at_us, ENDS, name) for at_us, name in world.ends[:most]]
    given = dict.fromkeys(t.gang for t in world.changed(0) if t.state in (BOUND, PIPELINED))
    timed += [(world.ends_at_us(world.gangs[name], PIPELINED), ENDS, name) for name in given]
    for name in world.reservations:
        if name != gang.name and name in world.gangs:
            claim = world.claim(world.reservations[name])
            timed += [(claim.until_us, GIVES_BACK, name), (claim.from_us, TAKES, name)]
    last_us = world.ends[most][0] if len(world.ends) > most else None
    moments: dict[int, list[Change]] = {first_us: []}
    for at_us, kind, name in sorted(timed):
        if (before_us is not None and at_us >= before_us) or (last_us and at_us >= last_us):
            break
        moments.setdefault(max(first_us, at_us), []).append((kind, name))
    return list(moments.items())


def _aged(world: World) -> Iterator[Gang]:
    """Gangs that have waited long enough, those first whose priority and patience add up to most."""
    after_us = world.settings.reserve_after_us

    def key(gang: Gang) -> tuple[int, int, str]:
        waited_us = world.now_us - gang.submitted_at_us
        return (-gang.priority - waited_us // max(1, after_us), gang.age, gang.name)

    waiting = (world.gangs[name] for name in world.lines.heads(world.gangs))
    yield from sorted(
        (
            gang
            for gang in waiting
            if world.now_us - gang.submitted_at_us >= after_us
            and gang.queue in world.accounts
            and gang.name not in world.reservations
            and waits(gang)
        ),
        key=key,
    )
