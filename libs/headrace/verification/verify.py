"""Reads the whole log and proves it: what `headrace verify` and every test history run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.decider import Decider
from headrace.decider.version import decision_version
from headrace.events import Entry, decode, decode_header, job_of, project_of, stream_of
from headrace.store.interface import READ_EVENTS_MAX, Ledger, Store, Stored
from headrace.verification.chain import Chain, Noted
from headrace.verification.invariants import Checker
from headrace.verification.ledger import LedgerCheck
from headrace.verification.replay import Replay
from headrace.verification.report import Report
from headrace.verification.violation import Violation

VIOLATIONS_MAX = 100  # told one by one; more are counted


class Verification:
    """All checks over one history, event by event. With a `ledger`, `finish` compares that too."""

    def __init__(
        self,
        deciders: Mapping[str, Decider[Any]],
        version: str = "",
        *,
        ledger: Ledger | None = None,
        noted: Noted | None = None,
    ) -> None:
        version = version or decision_version()
        self.chain = Chain(noted=noted)
        self.checker = Checker()
        self.replay = Replay(deciders, version)
        self._ledger = (
            LedgerCheck(ledger, self.checker.requests, self.replay, version) if ledger else None
        )
        self.violations: list[Violation] = []
        self.violations_total = 0

    def take(self, stored: Stored) -> list[Violation]:
        """Check the next event; what is wrong with it."""
        found = self.chain.check(stored)
        try:
            header, event = decode_header(stored.header), decode(stored.type, stored.data)
        except (KeyError, msgspec.MsgspecError) as error:
            text = f"{stored.type} cannot be read: {error}"
            found.append(Violation(invariant="I8", position=stored.position, what=text))
        else:
            entry = Entry(
                position=stored.position,
                recorded_at_us=stored.recorded_at_us,
                header=header,
                event=event,
            )
            found.extend(_disagreements(stored, entry))
            found.extend(self.checker.check(entry))
            found.extend(self.replay.check(stored, entry))
            if self._ledger is not None:
                found.extend(self._ledger.take(stored, entry))
        return self._found(found)

    def finish(self) -> list[Violation]:
        """Nothing follows: what is wrong with the end, and with what is kept beside the log."""
        found = self.chain.finish()
        if self._ledger is not None:
            found.extend(self._ledger.finish())
        return self._found(found)

    def _found(self, found: list[Violation]) -> list[Violation]:
        self.violations_total += len(found)
        self.violations.extend(found[: VIOLATIONS_MAX - len(self.violations)])
        return found

    def report(self, took_ms: int = 0) -> Report:
        """What was found so far."""
        return Report(
            first=min(1, self.chain.position),
            last=self.chain.position,
            head=self.chain.hash.hex(),
            gaps=self.chain.gaps,
            chain_intact=not self.chain.breaks,
            violations_total=self.violations_total,
            violations=tuple(self.violations),
            decisions=self.replay.decisions,
            reproduced=self.replay.reproduced,
            by_other_versions=dict(self.replay.by_others),
            took_ms=took_ms,
        )


def _disagreements(stored: Stored, entry: Entry) -> list[Violation]:
    """Columns and header fields that a reader goes by and that are not what the event itself says."""
    event, header = entry.event, entry.header
    pairs = (
        ("stream", stored.stream, stream_of(event)),
        ("project", stored.project, project_of(event)),
        ("header's project", header.project, project_of(event)),
        ("header's job", header.correlation, job_of(event)),
    )
    return [
        Violation(
            invariant="I8",
            position=stored.position,
            what=f"its {what} is {recorded!r}, and the event says {said!r}",
        )
        for what, recorded, said in pairs
        if recorded != said
    ]


async def verify(
    store: Store,
    deciders: Mapping[str, Decider[Any]],
    progress: Callable[[int, int], None] = lambda _position, _head: None,
    noted: Noted | None = None,
) -> Report:
    """Verify the log from its first position to where it ends now, and all that is kept beside it.

    `progress` is called with the position reached and the head after each page. `noted` is a
    position with its hash, kept elsewhere since the log was there. Raises `Unavailable`.
    """
    began_s = time.monotonic()
    ledger = await store.ledger()
    verification = Verification(deciders, ledger=ledger, noted=noted)
    end = max(ledger.last_event, ledger.head.position)
    position = 0
    while position < end:
        limit = min(READ_EVENTS_MAX, end - position)
        for stored in await store.read(position, limit):
            verification.take(stored)
        position += limit  # whatever is missing of it is a gap
        progress(position, end)
    verification.finish()
    return verification.report(int((time.monotonic() - began_s) * 1000))
