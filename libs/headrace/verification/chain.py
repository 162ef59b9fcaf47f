"""I8: positions are gapless and every event's hash chains it to the one before."""

from __future__ import annotations

from headrace.store.interface import GENESIS, Stored, follows
from headrace.verification.violation import Violation


class Chain:
    """Follows the log's bytes. After a violation it goes on from what it was given, so that one
    break is told once.
    """

    def __init__(self, position: int = 0, hash_: bytes = GENESIS) -> None:
        self.position = position
        self.hash = hash_
        self.recorded_at_us = 0
        self.gaps = 0
        self.breaks = 0

    def check(self, stored: Stored) -> list[Violation]:
        """What is wrong with this event as the next one."""
        found = []
        if stored.position != self.position + 1:
            self.gaps += 1
            found.append(f"follows position {self.position}")
        elif not follows(stored, self.position, self.hash):
            self.breaks += 1
            found.append("its hash does not chain onto the event before")
        if stored.recorded_at_us < self.recorded_at_us:
            found.append("is recorded earlier than the event before")
        self.position, self.hash = stored.position, stored.hash
        self.recorded_at_us = stored.recorded_at_us
        return [Violation(invariant="I8", position=stored.position, what=text) for text in found]
