"""Which line of the log's history a node follows.

Rule: from one line to a later one, and never back: a document of an earlier line is one that was on
its way, or of a head that nobody meant to go on. What names no line goes with any.
"""

from __future__ import annotations

import enum
import logging

from headrace.bus.agents import Desired
from headrace.node_agent.journal import Journal, Lineage

_LOG = logging.getLogger("headrace.node_agent")


class Step(enum.Enum):
    """What becomes of a document."""

    OBEY = "obey"
    FOLLOW = "follow"  # to its line first
    IGNORE = "ignore"


class Lineages:
    """`refused` names the line of the last document if it was not followed to."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.refused = ""

    def step(self, desired: Desired) -> Step:
        """What to do about this document; the first line that is heard of is this node's."""
        mine = self._journal.lineage
        if desired.lineage == mine.name:
            self.refused = ""
            return Step.OBEY
        if not mine.name:
            self._journal.enter(Lineage(name=desired.lineage, epoch=desired.lineage_epoch))
            return Step.OBEY
        if desired.lineage and desired.lineage_epoch > mine.epoch:
            return Step.FOLLOW
        if self.refused != (desired.lineage or "-"):
            self.refused = desired.lineage or "-"
            _LOG.warning(
                "desired state ignored reason=its log (lineage %s) is not later than the one that"
                " this node follows (%s)",
                self.refused,
                mine.name,
            )
        return Step.IGNORE

    def follow(self, desired: Desired) -> None:
        """Follow to the line of this document."""
        _LOG.warning(
            "the log was restored: lineage=%s from=%d", desired.lineage, desired.lineage_at
        )
        self.refused = ""
        lineage = Lineage(name=desired.lineage, epoch=desired.lineage_epoch)
        self._journal.follow(lineage, desired.lineage_at)
