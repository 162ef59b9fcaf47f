"""One checker for the promises the log keeps: fold it over any history, simulated or real.

I1 no device above its capacity · I2 one live attempt per job · I3 attempts in order · I4 legal
transitions, one end · I5 quotas and limits at every grant · I6 requests once · I7 gangs whole ·
I15 reservations kept · I16 pauses: all or none, on proof · I17 accounts: a number for ever one
user's of one project. I8 is `chain`, I11 `journal`, I14 `replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.events import Entry
from headrace.events.accounts import AccountAssigned
from headrace.events.attempts import AttemptExited, AttemptExpired, AttemptStarted
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    WorkersReleased,
)
from headrace.events.jobs import (
    JobAdmitted,
    JobCancelling,
    JobEligible,
    JobFinished,
    JobHeld,
    JobRefused,
    JobRequested,
    JobRetries,
    JobStarted,
)
from headrace.events.nodes import NodeChanged, NodeHeard, NodeJoined, NodeSilent
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.events.platform import LogBegan, ServiceLed, UsageAccounted
from headrace.events.queues import QueueConfigured, QueueDeleted
from headrace.verification.accounts import AssignedAccounts
from headrace.verification.bookings import Bookings
from headrace.verification.grants import Found
from headrace.verification.lives import Lives, Report
from headrace.verification.pause_promises import PausePromises
from headrace.verification.pauses import Pauses
from headrace.verification.requests import Requests
from headrace.verification.violation import Violation

Check = Callable[[Entry, Any], Iterable[Found]]


def _nothing(_entry: Entry, _event: Any) -> Iterable[Found]:
    return ()


class Checker:
    """Keeps its own books of the whole log and tells what contradicts them."""

    def __init__(self) -> None:
        self.lives = Lives()
        self.bookings = Bookings()
        self.requests = Requests()
        self.accounts = AssignedAccounts()
        self.promises = PausePromises()
        self.pauses = Pauses(self.lives.known)
        self._epochs: dict[str, int] = {}
        lives = self.lives
        self._on: dict[type[Any], Check] = {
            JobRequested: lives.requested,
            JobAdmitted: lives.admitted,
            JobRefused: lives.refused,
            JobCancelling: lives.cancelling,
            JobEligible: lives.standing,
            JobHeld: lives.standing,
            JobRetries: lives.retries,
            JobStarted: lives.begun,
            JobFinished: lives.finished,
            GangPlaced: self._placed,
            GangGrown: self._grown,
            GangShrunk: lives.shrunk,
            GangEvicted: lives.evicted,
            WorkersReleased: self._workers_released,
            GangReleased: self._released,
            AccountAssigned: self.accounts.assigned,
            AttemptStarted: lives.reported,
            AttemptExited: lives.reported,
            AttemptExpired: lives.expired,
            NodeSilent: lives.hearing,
            NodeHeard: lives.hearing,
            NodeJoined: self._joined,
            NodeChanged: self._node_changed,
            QueueConfigured: self._configured,
            QueueDeleted: self._deleted,
            LogBegan: lives.began,
            ServiceLed: self._led,
            UsageAccounted: lives.accounted,
            **self._of_pauses(),
        }

    def _of_pauses(self) -> dict[type[Any], Check]:
        return {
            GangPausing: self.pauses.pausing,
            GangPaused: self._paused,
            GangResumed: self._resumed,
            JobPausing: self.pauses.wanted,
            JobResuming: self.pauses.wanted,
            JobPaused: self.pauses.stands,
            AttemptLocked: self._moved(self.pauses.locked),
            AttemptPaused: self._moved(self.pauses.left),
            AttemptResumed: self._moved(_nothing),
            AttemptPauseFailed: self._moved(_nothing),
        }

    def check(self, entry: Entry) -> list[Violation]:
        """Fold the next entry; what it violates."""
        found: list[Found] = []
        if entry.header.request_key:
            found.extend(("I6", what) for what in self.requests.check(entry))
        check = self._on.get(type(entry.event))
        if check is not None:
            found.extend(check(entry, entry.event))
        if entry.header.count and type(entry.event).owner == "placement":
            found.extend(self.lives.stale(entry))
        found.extend(self.promises.check(entry))
        return [Violation(invariant=i, position=entry.position, what=what) for i, what in found]

    def _placed(self, entry: Entry, event: GangPlaced) -> Iterable[Found]:
        yield from self.lives.placed(entry, event)
        yield from self.bookings.booked(entry, event, self.lives.firm_of)

    def _grown(self, entry: Entry, event: GangGrown) -> Iterable[Found]:
        yield from self.lives.grown(entry, event)
        yield from self.bookings.booked(entry, event, self.lives.firm_of)

    def _released(self, entry: Entry, event: GangReleased) -> Iterable[Found]:
        yield from self.lives.released(entry, event)
        yield from self.bookings.released(event)

    def _workers_released(self, entry: Entry, event: WorkersReleased) -> Iterable[Found]:
        yield from self.lives.workers_released(entry, event)
        yield from self.bookings.given_back(event, self.lives.firm_of)

    def _paused(self, entry: Entry, event: GangPaused) -> Iterable[Found]:
        yield from self.pauses.paused(entry, event)
        yield from self.bookings.released(event)

    def _resumed(self, entry: Entry, event: GangResumed) -> Iterable[Found]:
        yield from self.pauses.resumed(entry, event)
        yield from self.bookings.booked(entry, event, self.lives.firm_of)

    def _moved(self, check: Check) -> Check:
        """A worker's report about leaving or coming back."""

        def moved(entry: Entry, event: Report) -> Iterable[Found]:
            yield from self.lives.numbered(event)
            yield from check(entry, event)

        return moved

    def _joined(self, entry: Entry, event: NodeJoined) -> Iterable[Found]:
        yield from self.bookings.joined(event)
        yield from self.lives.joined(entry, event)

    def _node_changed(self, entry: Entry, event: NodeChanged) -> Iterable[Found]:
        if event.change == "delete":
            self.bookings.node_gone(event.node)
        return self.lives.changed(entry, event)

    def _configured(self, entry: Entry, event: QueueConfigured) -> Iterable[Found]:
        self.bookings.configured(entry, event)
        return ()

    def _deleted(self, entry: Entry, event: QueueDeleted) -> Iterable[Found]:
        self.bookings.deleted(entry, event)
        return ()

    def _led(self, _entry: Entry, event: ServiceLed) -> Iterable[Found]:
        if event.epoch <= self._epochs.get(event.service, 0):
            yield "I4", f"{event.service} leads epoch {event.epoch} after a later one"
        self._epochs[event.service] = event.epoch
