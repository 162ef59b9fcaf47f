"""Gangs that wait, in lines of the same kind: if the first of a line does not fit, none of it does.

Rule: gangs are of one kind when they wait with nothing placed in the same queue, with the same rank,
and ask for the same; only their names and ages differ. A gang that has something already stands in
a line of its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

from headrace.scheduling.gangs import BELOW, PENDING, Gang, is_ready
from headrace.scheduling.turns import Turns

Key = tuple[int, str]  # age, name


class Lines:
    """The lines, each in order of age."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, list[Key]] = {}
        self._known: dict[Hashable, Hashable] = {}  # each kind once, however many are of it
        self._kinds: dict[str, Hashable] = {}

    def put(self, gang: Gang) -> None:
        """Let a gang wait."""
        kind = _kind_of(gang)
        kind = self._known.setdefault(kind, kind)
        self._kinds[gang.name] = kind
        insort(self._lines.setdefault(kind, []), (gang.age, gang.name))

    def drop(self, gang: Gang) -> None:
        """It waits no longer."""
        kind = self._kinds.pop(gang.name, None)
        if kind is None:
            return
        line = self._lines[kind]
        del line[bisect_left(line, (gang.age, gang.name))]
        if not line:
            del self._lines[kind], self._known[kind]

    def regroup(
        self, gangs: dict[str, Gang], queues: Collection[str], queue_of: Callable[[str], str]
    ) -> Iterator[tuple[str, str, list[str]]]:
        """Move those who wait in these queues with nothing placed to the queues that they are of
        now. From where to where they are moved, many of one kind at a time.
        """
        moved = [kind for kind in self._lines if isinstance(kind, tuple) and kind[0] in queues]
        lines = [(kind, self._lines.pop(kind)) for kind in moved]
        for each in moved:
            del self._known[each]
        grown: dict[Hashable, None] = {}
        for old, line in lines:
            parts: dict[str, list[Key]] = {}
            for key in line:
                parts.setdefault(queue_of(key[1]), []).append(key)
            for queue, keys in parts.items():
                to: Hashable = (queue, *old[1:])
                to = self._known.setdefault(to, to)
                self._lines.setdefault(to, []).extend(keys)
                names = [name for _, name in keys]
                self._kinds.update(dict.fromkeys(names, to))
                for name in names:
                    gangs[name].queue = queue
                grown[to] = None
                yield old[0], queue, names
        for kind in grown:
            self._lines[kind].sort()  # once, of runs that are sorted already

    def kinds(self) -> list[Hashable]:
        """Of which kinds there are lines."""
        return list(self._lines)

    def of(self, kind: Hashable) -> Iterator[str]:
        """The names in one line, the oldest first."""
        return (name for _, name in self._lines[kind])

    def heads(self, gangs: dict[str, Gang]) -> Iterator[str]:
        """The first of each line that still waits and could be placed."""
        for kind in self._lines:
            name = next((name for name in self.of(kind) if _is_waiting(gangs[name])), None)
            if name is not None:
                yield name

    def alike(self, gangs: dict[str, Gang]) -> Iterator[tuple[Gang, Sequence[str]]]:
        """Every one of the gangs, as one of those that have and want the same: the first of them
        and the names of all.
        """
        for line in self._lines.values():
            yield gangs[line[0][1]], [name for _, name in line]
        for name, gang in gangs.items():
            if name not in self._kinds:
                yield gang, (name,)

    def kind_of(self, name: str) -> Hashable:
        """In which line a gang stands."""
        return self._kinds[name]


class Heads:
    """One action's way through the lines: the first of each, whose turn it is first. What the first
    of a line may not, none of it may, until something changes. Each of those `apart` stands in a
    line of its own: it alone may use what is reserved for it. Without `grows` only gangs below their
    minimum come.
    """

    def __init__(
        self,
        lines: Lines,
        gangs: dict[str, Gang],
        turns: Turns,
        may: Callable[[Gang], bool],
        *,
        apart: Collection[str] = (),
        grows: bool = True,
    ) -> None:
        self._lines, self._gangs, self._turns, self._may = lines, gangs, turns, may
        self._grows = grows
        self._apart = {name for name in apart if name in gangs}
        self._ways = {kind: self._way(kind) for kind in lines.kinds()}
        self._ways.update((name, iter((name,))) for name in sorted(self._apart))
        self._closed: dict[Hashable, None] = {}
        for kind in self._ways:
            self._advance(kind)

    def take(self) -> Gang | None:
        """The gang whose turn it is; None when every line has ended or is closed."""
        name = self._turns.take()
        return None if name is None else self._gangs[name]

    def go_on(self, gang: Gang) -> None:
        """The gang was served: the next of its line follows."""
        self._advance(self._kind_of(gang.name))

    def again(self, gang: Gang) -> None:
        """The gang waits for one more turn of its own."""
        self._turns.put(gang, gang.standing())

    def close(self, gang: Gang) -> None:
        """Nothing can be done for the gang, nor for any like it."""
        self._closed[self._kind_of(gang.name)] = None

    def reopen(self) -> None:
        """Something has changed: those like the ones for whom nothing could be done may try."""
        closed, self._closed = self._closed, {}
        for kind in closed:
            self._advance(kind)

    def _kind_of(self, name: str) -> Hashable:
        return name if name in self._apart else self._lines.kind_of(name)

    def _way(self, kind: Hashable) -> Iterator[str]:
        names = self._lines.of(kind)
        return (name for name in names if name not in self._apart) if self._apart else names

    def _advance(self, kind: Hashable) -> None:
        for name in self._ways[kind]:
            gang = self._gangs[name]
            if not _is_waiting(gang) or not (self._grows or gang.standing() == BELOW):
                continue
            if self._may(gang):
                self._turns.put(gang, gang.standing())
            else:
                self._closed[kind] = None
            return


def _is_waiting(gang: Gang) -> bool:
    return gang.any_in((PENDING,)) and is_ready(gang, gang.root)


def _kind_of(gang: Gang) -> Hashable:
    asks = tuple(
        (task.state, task.role, task.priority, task.shape, task.tags) for task in gang.all_tasks()
    )
    if any(task.state != PENDING for task in gang.all_tasks()):
        return gang.name
    firm = (gang.preemptible, gang.protected_minimum)
    rank = (gang.priority, firm, gang.patience_us, gang.max_duration_us)
    return (gang.queue, rank, gang.root, gang.options, asks)
