"""Every decision of a history derived again, each from a state that was prepared in some way.

Rule: a decision is derived on exactly `fold(log[1..basis])` at the clock reading that was recorded.
One digest stands for each recorded decision: of its type, stream, bytes and cause.
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from tests.determinism.permuting import permuted
from tests.determinism.recording import DECISIONS, History

from headrace.decider import Decider, Draft
from headrace.events import (
    CATALOGUE,
    Entry,
    decode,
    decode_header,
    encode,
    stream_of,
    tag_of,
)
from headrace.store.interface import Stored

CUT_ONE_IN = 3  # decisions before which a service starts anew from a snapshot

Prepare = Callable[[Decider[Any], Any, random.Random], Any]  # a state, before it is decided on


def folded(_decider: Decider[Any], state: Any, _chance: random.Random) -> Any:
    """The state as events made it, with all that is remembered beside it."""
    return state


def shuffled(decider: Decider[Any], state: Any, chance: random.Random) -> Any:
    """The state from a snapshot, its mappings in another order."""
    return permuted(restored(decider, state), chance)


def cut(decider: Decider[Any], state: Any, chance: random.Random) -> Any:
    """Now and then the state from a snapshot, which keeps it byte for byte."""
    return state if chance.randrange(CUT_ONE_IN) else restored(decider, state)


def restored(decider: Decider[Any], state: Any) -> Any:
    """The state from a snapshot. Raises `ValueError` when the snapshot is not all of it."""
    data = msgspec.json.encode(state)
    again = msgspec.json.decode(data, type=decider.state)
    if msgspec.json.encode(again) != data:
        raise ValueError(f"a snapshot of {decider.service} does not keep everything")
    return again


WAYS: dict[str, Prepare] = {"folded": folded, "shuffled": shuffled, "cut": cut}


def derive(
    deciders: Mapping[str, Decider[Any]], history: History, way: str, seed: int = 0
) -> Iterator[str]:
    """The digest of each recorded decision, as it is derived this way."""
    chance = random.Random(f"{way} {seed}")
    lagging = {name: _Lagging(decider, way, chance) for name, decider in deciders.items()}
    for stored in history:
        entry = _entry(stored)
        if stored.type in DECISIONS:
            yield lagging[CATALOGUE[stored.type].owner].derived(entry)
        for one in lagging.values():
            one.hear(stored.type, entry)


def digest_of(stored: Stored) -> str:
    """The digest of a decision as it was recorded."""
    causation = decode_header(stored.header).causation
    return _digest(stored.type, stored.stream, stored.data, causation)


class _Lagging:
    """One service's state at the basis of its last decision, and what follows that basis."""

    def __init__(self, decider: Decider[Any], way: str, chance: random.Random) -> None:
        self._decider, self._prepare, self._chance = decider, WAYS[way], chance
        self._keeps = way != "shuffled"  # events go on in the order of the log
        self._tags = decider.tags()
        self._state = decider.initial()
        self._queue: deque[Entry] = deque()
        self._turn = (0, 0)
        self._drafts: Sequence[Draft] = ()

    def hear(self, tag: str, entry: Entry) -> None:
        """An event of the log."""
        if tag in self._tags:
            self._queue.append(entry)

    def derived(self, entry: Entry) -> str:
        """The digest of what stands in this decision's place now."""
        header = entry.header
        turn = (header.basis, header.decided_at_us)
        if header.index == 0 or turn != self._turn:
            self._decide(turn)
        if len(self._drafts) != header.count or header.index >= header.count:
            return f"{len(self._drafts)} decisions instead of {header.count}"
        draft = self._drafts[header.index]
        event = draft.event
        return _digest(tag_of(event), stream_of(event), encode(event), draft.causation)

    def _decide(self, turn: tuple[int, int]) -> None:
        queue, self._turn = self._queue, turn
        while queue and queue[0].position <= turn[0]:
            self._decider.evolve(self._state, queue.popleft())
        prepared = self._prepare(self._decider, self._state, self._chance)
        if self._keeps:
            self._state = prepared
        self._drafts = self._decider.decide(prepared, turn[1])


def _entry(stored: Stored) -> Entry:
    return Entry(
        position=stored.position,
        recorded_at_us=stored.recorded_at_us,
        header=decode_header(stored.header),
        event=decode(stored.type, stored.data),
    )


def _digest(tag: str, stream: str, data: bytes, causation: int) -> str:
    parts = (tag.encode(), stream.encode(), data, b"%d" % causation)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
