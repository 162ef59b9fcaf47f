"""What a deciding service is: four pure functions over one state.

Rule: `evolve` is total and the only thing that changes state (in place); `decide` never changes
it and depends on nothing but `(state, now_us)`; `wakeup` names the next moment at which `decide`
could say something new although no event arrived. After Chassaing's Decider, with the clock as an
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from headrace.events import Decision, Entry, Event, tag_of

S = TypeVar("S", bound=msgspec.Struct)


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A decision not yet in the log.

    `causation` is the position of the request or fact it answers (0: the state as a whole).
    `traceparent` is the trace of the job it concerns, when it concerns one. `actor` is whom it is
    done for.
    """

    event: Decision
    causation: int = 0
    traceparent: str = ""
    actor: str = ""


@dataclass(frozen=True, kw_only=True)
class Decider(Generic[S]):
    """A service's decisions. `state` is the Struct type, so that snapshots can be decoded.

    `initial() -> S`; `evolve(S, Entry) -> None` for the types in `listens_to` only;
    `decide(S, now_us) -> drafts`; `wakeup(S) -> now_us or None`.
    """

    service: str
    state: type[S]
    initial: Callable[[], S]
    evolve: Callable[[S, Entry], None]
    decide: Callable[[S, int], Sequence[Draft]]
    wakeup: Callable[[S], int | None]
    listens_to: tuple[type[Event], ...]

    def tags(self) -> frozenset[str]:
        """The type tags this decider folds; all others are skipped undecoded."""
        return frozenset(tag_of(event) for event in self.listens_to)


def fold(decider: Decider[S], state: S, entries: Sequence[Entry]) -> S:
    """`state` after `entries`, given in order of position."""
    tags = decider.tags()
    for entry in entries:
        if tag_of(entry.event) in tags:
            decider.evolve(state, entry)
    return state
