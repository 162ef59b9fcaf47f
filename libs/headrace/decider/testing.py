"""Given events, when the decider decides, then these drafts: the shape of every decider's test.

Rule: positions are numbered here, time is said by the test, and nothing else is invented.

    history = given(DECIDER, configured, requested)
    assert [draft.event for draft in history.at(5).decides()] == [admitted]
"""

from __future__ import annotations

from typing import Generic, Self, TypeVar

import msgspec

from headrace.decider import Decider, Draft
from headrace.events import Entry, Event, Header, tag_of

S = TypeVar("S", bound=msgspec.Struct)

TURNS_MAX = 1_000  # a decider that is not done after so many decides for ever


class History(Generic[S]):
    """A log in memory and the state folded from it. `entries` holds every event in order."""

    def __init__(self, decider: Decider[S]) -> None:
        self.decider = decider
        self.state = decider.initial()
        self.entries: list[Entry] = []
        self.now_us = 0

    def given(
        self, *events: Event, causation: int = 0, actor: str = "", traceparent: str = ""
    ) -> Self:
        """Append and fold these events."""
        tags = self.decider.tags()
        for event in events:
            entry = Entry(
                position=len(self.entries) + 1,
                recorded_at_us=self.now_us,
                header=Header(actor=actor, causation=causation, traceparent=traceparent),
                event=event,
            )
            self.entries.append(entry)
            if tag_of(event) in tags:
                self.decider.evolve(self.state, entry)
        return self

    def at(self, now_us: int) -> Self:
        """It is this late now."""
        self.now_us = now_us
        return self

    def decides(self) -> list[Draft]:
        """What is decided now; nothing changes."""
        return list(self.decider.decide(self.state, self.now_us))

    def turn(self) -> list[Draft]:
        """What is decided now, which is in the log and folded afterwards."""
        drafts = self.decides()
        for draft in drafts:
            self.given(
                draft.event,
                causation=draft.causation,
                actor=draft.actor,
                traceparent=draft.traceparent,
            )
        return drafts

    def settled(self) -> list[Draft]:
        """Everything that is decided in turns until there is nothing more to decide."""
        decided: list[Draft] = []
        for _ in range(TURNS_MAX):
            drafts = self.turn()
            if not drafts:
                return decided
            decided.extend(drafts)
        raise AssertionError(f"{self.decider.service} decides on and on")

    def restored(self) -> Self:
        """Go on from a snapshot of the state instead of the state itself."""
        data = msgspec.json.encode(self.state)
        self.state = msgspec.json.decode(data, type=self.decider.state)
        assert msgspec.json.encode(self.state) == data, "a snapshot must keep everything"
        return self


def given(decider: Decider[S], *events: Event) -> History[S]:
    """A history that begins with these events."""
    return History(decider).given(*events)
