"""I8: positions are gapless and every event's hash chains all of its columns to the one before.

What this alone cannot find is a log whose end was cut off, or written anew, together with everything
that is kept beside it: that takes a position and its hash, noted where nobody could change them.
"""

from __future__ import annotations

import msgspec

from headrace.store.interface import GENESIS, Stored, follows
from headrace.verification.violation import Violation


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A position and the hash it had when somebody noted it outside the platform."""

    position: int
    hash: bytes


class Chain:
    """Follows the log's bytes. After a violation it goes on from what it was given, so that one
    break is told once.
    """

    def __init__(
        self, position: int = 0, hash_: bytes = GENESIS, *, noted: Noted | None = None
    ) -> None:
        self.position = position
        self.hash = hash_
        self.recorded_at_us = 0
        self.gaps = 0
        self.breaks = 0
        self._noted = noted

    def check(self, stored: Stored) -> list[Violation]:
        """What is wrong with this event as the next one."""
        found = []
        if stored.position != self.position + 1:
            self.gaps += 1
            found.append(f"follows position {self.position}")
        elif not follows(stored, self.position, self.hash):
            self.breaks += 1
            found.append("its hash does not chain onto the event before: a column was changed")
        if stored.recorded_at_us < self.recorded_at_us:
            found.append("is recorded earlier than the event before")
        noted = self._noted
        if noted is not None and noted.position == stored.position and noted.hash != stored.hash:
            found.append("has another hash than was noted for it")
        self.position, self.hash = stored.position, stored.hash
        self.recorded_at_us = stored.recorded_at_us
        return [Violation(invariant="I8", position=stored.position, what=text) for text in found]

    def finish(self) -> list[Violation]:
        """What is wrong with where the log ends."""
        noted = self._noted
        if noted is None or noted.position <= self.position:
            return []
        what = f"was noted, and the log ends at {self.position}"
        return [Violation(invariant="I8", position=noted.position, what=what)]
