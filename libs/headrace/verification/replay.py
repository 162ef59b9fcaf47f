"""I14: every decision derived again from the log, and compared byte for byte.

Rule: a decision is made again on exactly `fold(log[1..basis])` with the clock reading it recorded.
A service's state therefore lags: it is folded up to a basis only when a decision on it comes by.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.decider import Decider, Draft
from headrace.events import CATALOGUE, Decision, Entry, encode, stream_of, tag_of
from headrace.events.platform import ServiceLed
from headrace.store.interface import Stored
from headrace.verification.violation import Violation

_DECISIONS = {t: e.owner for t, e in CATALOGUE.items() if issubclass(e, Decision)}


class Replay:
    """Folds every decider over the log. `version` is the installed code's `decision_version`."""

    def __init__(self, deciders: Mapping[str, Decider[Any]], version: str) -> None:
        self._lagging = {name: _Lagging(decider) for name, decider in deciders.items()}
        self._version = version
        self._versions: dict[str, str] = {}  # of the deciding code, by service
        self._listeners: dict[str, list[_Lagging]] = {}
        for lagging in self._lagging.values():
            for tag in lagging.tags:
                self._listeners.setdefault(tag, []).append(lagging)
        self.decisions = 0
        self.reproduced = 0
        self.by_others: Counter[str] = Counter()  # decisions by other code, per version

    def check(self, stored: Stored, entry: Entry) -> list[Violation]:
        """Take the next event of the log, as bytes and decoded; what cannot be derived again."""
        found: list[str] = []
        if isinstance(entry.event, ServiceLed):
            self._versions[entry.event.service] = entry.event.decision_version
        owner = _DECISIONS.get(stored.type)
        if owner is not None:
            found = self._decided(owner, stored, entry)
        for lagging in self._listeners.get(stored.type, ()):
            lagging.queue.append(entry)
        return [Violation(invariant="I14", position=stored.position, what=text) for text in found]

    def state_of(self, service: str) -> Any:
        """The service's state at the end of what was taken so far."""
        lagging = self._lagging[service]
        lagging.fold_to(None)
        return lagging.state

    def encoded_state(self, service: str) -> bytes | None:
        """The service's state at the end of what was taken so far, as a snapshot has it; None for a
        service whose decider is not here. The replay itself stays at the basis it is at.
        """
        lagging = self._lagging.get(service)
        return lagging.encoded() if lagging is not None else None

    def _decided(self, owner: str, stored: Stored, entry: Entry) -> list[str]:
        version = self._versions.get(owner, "unknown")
        lagging = self._lagging.get(owner)
        if lagging is None or version != self._version:
            self.by_others[version] += 1
            return []
        self.decisions += 1
        found = lagging.compare(stored, entry)
        self.reproduced += not found
        return found


class _Lagging:
    """One service's state, at the basis of its last decision, and what follows that basis."""

    def __init__(self, decider: Decider[Any]) -> None:
        self.decider = decider
        self.tags = decider.tags()
        self.state = decider.initial()
        self.queue: deque[Entry] = deque()
        self._key = (0, 0)  # basis and clock of the decision at hand
        self._drafts: Sequence[Draft] = ()
        self._next = 0

    def fold_to(self, basis: int | None) -> None:
        """Fold what lies at or below `basis`; everything when None."""
        queue, evolve, state = self.queue, self.decider.evolve, self.state
        while queue and (basis is None or queue[0].position <= basis):
            evolve(state, queue.popleft())

    def encoded(self) -> bytes:
        """The state after everything that was queued, which stays queued."""
        decider = self.decider
        state = msgspec.json.decode(msgspec.json.encode(self.state), type=decider.state)
        for entry in self.queue:
            decider.evolve(state, entry)
        return msgspec.json.encode(state)

    def compare(self, stored: Stored, entry: Entry) -> list[str]:
        """What differs between this recorded decision and the one derived again."""
        header = entry.header
        found = []
        key = (header.basis, header.decided_at_us)
        if header.index == 0 or key != self._key:
            found.extend(self._complete())
            self._decide(key)
            if len(self._drafts) != header.count:
                found.append(f"{header.count} decisions recorded, {len(self._drafts)} derived")
        if header.index != self._next:
            found.append(f"is number {header.index} of its decisions and follows {self._next - 1}")
        self._next = header.index + 1
        if header.index >= len(self._drafts):
            return [*found, f"{stored.type} is not derived"]
        return [*found, *_differences(stored, entry, self._drafts[header.index])]

    def _decide(self, key: tuple[int, int]) -> None:
        self.fold_to(key[0])
        self._key, self._next = key, 0
        self._drafts = self.decider.decide(self.state, key[1])

    def _complete(self) -> list[str]:
        missing = len(self._drafts) - self._next
        return [f"{missing} decisions before this one are missing"] if missing > 0 else []


def _differences(stored: Stored, entry: Entry, draft: Draft) -> list[str]:
    event = draft.event
    pairs = (
        ("type", stored.type, tag_of(event)),
        ("stream", stored.stream, stream_of(event)),
        ("data", stored.data, encode(event)),
        ("causation", entry.header.causation, draft.causation),
    )
    return [
        f"{what} {recorded!r} recorded, {derived!r} derived"
        for what, recorded, derived in pairs
        if recorded != derived
    ]
