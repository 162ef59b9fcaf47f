"""I15 where jobs are paused: what becomes of what others were promised.

Rule: as `promises` has it; and what was promised is void where memory of a node of the reservation
was booked for what a gang had on its devices. Who comes back has as long as it had left. Whoever is
to pause waits no longer; if that is taken back before it is paused, it waits anew from there on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.events import Entry
from headrace.events.gangs import GangReleased
from headrace.events.jobs import JobEligible, JobFinished, JobRetries
from headrace.events.pauses import (
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.verification.life import NEVER
from headrace.verification.promises import Found
from headrace.verification.rests import RestPromises
from headrace.verification.waits import Holding


class PausePromises(RestPromises):
    """The promises of a log in which jobs are paused."""

    def __init__(self) -> None:
        super().__init__()
        self._left_us: dict[str, int] = {}  # what those who have left their devices may still run
        self._halted: dict[str, bool] = {}  # they are to pause and are not yet; did they wait?
        self._stand: dict[str, None] = {}  # they are paused
        self._on |= {
            GangPausing: self._pausing,
            GangPaused: self._paused,
            GangResumed: self._resumed,
            JobPausing: self._halting,
            JobResuming: self._going_on,
            JobPaused: self._stands,
        }

    def _halting(self, entry: Entry, event: JobPausing) -> Iterable[Found]:
        """It is to wait no longer."""
        wait = self._waits.get(event.job)
        if wait is not None:
            self._halted[event.job] = wait.since != NEVER
            self._rest(entry, event.job)
        return ()

    def _going_on(self, entry: Entry, event: JobResuming) -> Iterable[Found]:
        """It is not to pause any more; once paused, quota says when it competes."""
        self._stand.pop(event.job, None)
        if self._halted.pop(event.job, False):
            self._waits[event.job].wait(entry.position)
        return ()

    def _stands(self, entry: Entry, event: JobPaused) -> Iterable[Found]:
        """It is paused; if that was taken back meanwhile, quota lets it compete again."""
        if event.job in self._halted:
            del self._halted[event.job]
            self._stand[event.job] = None
        self._rest(entry, event.job)
        return ()

    def _eligible(self, entry: Entry, event: JobEligible) -> Iterable[Found]:
        """It competes, once nobody wants it paused any more."""
        if event.job in self._halted:
            self._halted[event.job] = True
        elif event.job not in self._stand:
            return super()._eligible(entry, event)
        return ()

    def _retries(self, entry: Entry, event: JobRetries) -> Iterable[Found]:
        """Its rest is over; it waits then, unless it is paused."""
        if event.job in self._halted or event.job in self._stand:
            rested = self._resting.pop(event.job, False)
            if event.job in self._halted:
                self._halted[event.job] = rested
            return ()
        return super()._retries(entry, event)

    def _over(self, entry: Entry, event: Any) -> Iterable[Found]:
        if event.job in self._halted:
            self._halted[event.job] = False
        if isinstance(event, JobFinished):
            self._halted.pop(event.job, None)
            self._stand.pop(event.job, None)
        return super()._over(entry, event)

    def _pausing(self, entry: Entry, event: GangPausing) -> Iterable[Found]:
        """It is about to leave its devices."""
        holding, gainer = self._holdings.get(event.job), self._waits.get(event.gainer)
        if holding is not None:
            holding.leaving = entry.position
            if event.image_bytes:
                self._void(entry, holding.nodes)
        if gainer is not None:
            gainer.expect(entry, self._settings["release_s"])
        return ()

    def _paused(self, entry: Entry, event: GangPaused) -> Iterable[Found]:
        """It has left them, and waits for them."""
        holding = self._holdings.pop(event.job, None)
        self._released_at = entry.position
        if holding is not None:
            self._left_us[event.job] = holding.end_us - entry.recorded_at_us
        if event.job in self._waits:
            self._waits[event.job].wait(entry.position)
        return ()

    def _resumed(self, entry: Entry, event: GangResumed) -> Iterable[Found]:
        """It is back, for as long as it had left."""
        nodes = frozenset(worker.node for worker in event.workers)
        end_us = entry.header.decided_at_us + self._left_us.pop(event.job, 0)
        self._holdings[event.job] = Holding(event.attempt, nodes, end_us)
        self._rest(entry, event.job)
        return ()

    def _released(self, entry: Entry, event: GangReleased) -> Iterable[Found]:
        self._left_us.pop(event.job, None)
        return super()._released(entry, event)

    def _void(self, entry: Entry, nodes: frozenset[str]) -> None:
        """What was promised there may not be kept as it was."""
        self._changed |= dict.fromkeys(nodes, entry.position)
        for promise in self._promised.values():
            promise.void |= bool(nodes & promise.nodes)
