"""Gangs that wait, in lines of the same kind: if the first of a line does not fit, none of it does.

Rule: gangs are of one kind when they wait with nothing placed in the same queue, with the same rank,
and ask for the same; only their names, ages and owners differ. A gang that has something already stands in
a line of its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

import msgspec

from headrace.scheduling.gangs import BELOW, PENDING, Gang, is_ready
from headrace.scheduling.turns import Turns

Key = tuple[int, str, "_Owned", Gang]  # age, name: unique, so that nothing after them is compared


class _Line:
    """Gangs of one kind, in order of age, and what each owner has in it."""

    def __init__(self, kind: Hashable) -> None:
        self.kind = kind
        self.keys: list[Key] = []
        self.owned: dict[str, _Owned] = {}


class _Owned(msgspec.Struct, eq=False, gc=False):
    """The gangs of one owner in a line: in another line at once when the owner's queue is another. Not
    looked at by the garbage collector, and so nor are the keys of all who wait.
    """

    owner: str
    line: _Line
    count: int = 0


class Lines:
    """The lines, each in order of age."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}
        self._stands: dict[str, _Owned] = {}  # by gang

    def put(self, gang: Gang) -> None:
        """Let a gang wait."""
        owned = self._owned(self._line(_kind_of(gang)), gang.owner)
        self._stands[gang.name] = owned
        owned.count += 1
        insort(owned.line.keys, (gang.age, gang.name, owned, gang))

    def drop(self, gang: Gang) -> None:
        """It waits no longer."""
        owned = self._stands.pop(gang.name, None)
        if owned is None:
            return
        line = owned.line
        del line.keys[bisect_left(line.keys, (gang.age, gang.name))]
        owned.count -= 1
        if not owned.count:
            del line.owned[owned.owner]
        if not line.keys:
            del self._lines[line.kind]

    def regroup(
        self, queues: Collection[str], queue_of: Callable[[str], str]
    ) -> Iterator[tuple[str, str, list[Key]]]:
        """Move those who wait in these queues with nothing placed to the queues that their owners are
        of now. From where to where they are moved, many of one kind at a time.
        """
        moved = [kind for kind in self._lines if isinstance(kind, tuple) and kind[0] in queues]
        lines = [(kind, self._lines.pop(kind)) for kind in moved]
        grown: dict[Hashable, _Line] = {}
        for (was, *asked), old in lines:
            parts: dict[_Owned, list[Key]] = {owned: [] for owned in old.owned.values()}
            for key in old.keys:  # as many as wait: nothing else is done for each of them
                parts[key[2]].append(key)
            for owned, keys in parts.items():
                queue = queue_of(owned.owner)
                for key in keys:
                    key[3].queue = queue
                to = self._line((queue, *asked))
                grown[to.kind] = to
                self._join(owned, keys, to)
                yield was, queue, keys
        for line in grown.values():
            line.keys.sort()  # once, of runs that are sorted already

    def kinds(self) -> list[Hashable]:
        """Of which kinds there are lines."""
        return list(self._lines)

    def of(self, kind: Hashable) -> Iterator[str]:
        """The names in one line, the oldest first."""
        return (key[1] for key in self._lines[kind].keys)

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
            yield line.keys[0][3], [key[1] for key in line.keys]
        for name, gang in gangs.items():
            if name not in self._stands:
                yield gang, (name,)

    def kind_of(self, name: str) -> Hashable:
        """In which line a gang stands."""
        return self._stands[name].line.kind

    def _line(self, kind: Hashable) -> _Line:
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = _Line(kind)
        return line

    def _owned(self, line: _Line, owner: str) -> _Owned:
        owned = line.owned.get(owner)
        if owned is None:
            owned = line.owned[owner] = _Owned(owner, line)
        return owned

    def _join(self, owned: _Owned, keys: list[Key], to: _Line) -> None:
        there = to.owned.setdefault(owned.owner, owned)
        owned.line = to
        if there is owned:
            to.keys.extend(keys)
            return
        there.count += owned.count  # the owner had gangs in both queues
        for age, name, _, gang in keys:
            self._stands[name] = there
            to.keys.append((age, name, there, gang))


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
