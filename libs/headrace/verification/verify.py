"""Reads the whole log and proves it: what `headrace verify` and every test history run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.decider import Decider
from headrace.decider.version import decision_version
from headrace.events import Entry, decode, decode_header
from headrace.store.interface import READ_EVENTS_MAX, Store, Stored
from headrace.verification.chain import Chain
from headrace.verification.invariants import Checker
from headrace.verification.replay import Replay
from headrace.verification.report import Report
from headrace.verification.violation import Violation

VIOLATIONS_MAX = 100  # told one by one; more are counted


class Verification:
    """All checks over one history, event by event."""

    def __init__(self, deciders: Mapping[str, Decider[Any]], version: str = "") -> None:
        self.chain = Chain()
        self.checker = Checker()
        self.replay = Replay(deciders, version or decision_version())
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
            found.extend(self.checker.check(entry))
            found.extend(self.replay.check(stored, entry))
        self.violations_total += len(found)
        self.violations.extend(found[: VIOLATIONS_MAX - len(self.violations)])
        return found

    def report(self, took_ms: int = 0) -> Report:
        """What was found so far."""
        return Report(
            first=min(1, self.chain.position),
            last=self.chain.position,
            gaps=self.chain.gaps,
            chain_intact=not self.chain.breaks,
            violations_total=self.violations_total,
            violations=tuple(self.violations),
            decisions=self.replay.decisions,
            reproduced=self.replay.reproduced,
            by_other_versions=dict(self.replay.by_others),
            took_ms=took_ms,
        )


async def verify(
    store: Store,
    deciders: Mapping[str, Decider[Any]],
    progress: Callable[[int, int], None] = lambda _position, _head: None,
) -> Report:
    """Verify the log from its first position to where it ends now.

    `progress` is called with the position reached and the head after each page. Raises
    `Unavailable`.
    """
    began_s = time.monotonic()
    head = (await store.head()).position
    verification = Verification(deciders)
    while verification.chain.position < head:
        limit = min(READ_EVENTS_MAX, head - verification.chain.position)
        page = await store.read(verification.chain.position, limit)
        if not page:
            break
        for stored in page:
            verification.take(stored)
        progress(verification.chain.position, head)
    return verification.report(int((time.monotonic() - began_s) * 1000))
