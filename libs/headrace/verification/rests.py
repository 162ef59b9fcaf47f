"""Promises to those who wait (I15), where some rest before they are tried again.

Rule: who rests does not wait, whatever quota says of it meanwhile; when the rest is over it waits if
it may compete then.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.events import Entry
from headrace.events.gangs import GangReleased
from headrace.events.jobs import JobCancelling, JobEligible, JobFinished, JobHeld, JobRetries
from headrace.verification.promises import Found, Promises


class RestPromises(Promises):
    """Knows who rests, and whether it may compete then."""

    def __init__(self) -> None:
        super().__init__()
        self._resting: dict[str, bool] = {}
        self._on[JobRetries] = self._retries

    def _released(self, entry: Entry, event: GangReleased) -> Iterable[Found]:
        found = super()._released(entry, event)
        if event.rests_until_us:
            self._resting[event.job] = True
            self._rest(entry, event.job)
        return found

    def _retries(self, entry: Entry, event: JobRetries) -> Iterable[Found]:
        wait = self._waits.get(event.job)
        if self._resting.pop(event.job, False) and wait is not None:
            wait.wait(entry.position)
        return ()

    def _eligible(self, entry: Entry, event: JobEligible) -> Iterable[Found]:
        if event.job not in self._resting:
            return super()._eligible(entry, event)
        self._resting[event.job] = True
        return ()

    def _over(self, entry: Entry, event: JobHeld | JobCancelling | JobFinished) -> Iterable[Found]:
        if isinstance(event, JobFinished):
            self._resting.pop(event.job, None)
        elif event.job in self._resting:
            self._resting[event.job] = False
        return super()._over(entry, event)
