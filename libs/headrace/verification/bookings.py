"""I1 and I5: no device above its capacity, no queue above what it may have, at every grant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.events import Entry
from headrace.events.gangs import GangPlaced, GangReleased
from headrace.events.guards import DEVICE_MILLI, guards_of
from headrace.events.nodes import NodeJoined
from headrace.events.pauses import GangPaused, GangResumed
from headrace.events.queues import Queue, QueueConfigured

UNLIMITED = -1
DEPTH_MAX = 32  # levels of the queue tree that are looked at

Found = tuple[str, str]  # invariant, what


class Bookings:
    """Who holds how much of what."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.used: Counter[str] = Counter()  # by queue, with all below it
        self.firm: Counter[str] = Counter()  # of that, by jobs that cannot be preempted
        self._milli: Counter[str] = Counter()  # by guard key
        self._node: dict[str, str] = {}  # which node has the device
        self._held: dict[str, tuple[str, int, bool]] = {}  # job: project, milli, firm
        self._resting: dict[str, tuple[str, int, bool]] = {}  # as held, of who left its devices
        self._configured_at = 0

    def joined(self, event: NodeJoined) -> None:
        """The node has these devices."""
        for device in event.devices:
            self._node[device.device] = event.node

    def configured(self, entry: Entry, event: QueueConfigured) -> None:
        """The queue stands like this from now on, perhaps under another parent."""
        self.queues[event.name] = event.queue
        self._configured_at = entry.position
        self.used.clear()
        self.firm.clear()
        for project, milli, firm in self._held.values():
            self._use(project, milli, firm=firm)

    def placed(self, entry: Entry, event: GangPlaced, *, firm: bool) -> Iterator[Found]:
        """Book the gang; what is wrong with that."""
        yield from self._books(event)
        yield from self._granted(entry, event, firm=firm)

    def resumed(self, entry: Entry, event: GangResumed, *, firm: bool) -> Iterator[Found]:
        """Book what has left its devices again; what is wrong with that."""
        yield from self._books(event)
        _, milli, _ = self._resting.pop(event.job, (event.project, 0, firm))
        if milli != event.milli:
            yield "I1", f"{event.job} left {milli} milli and books {event.milli} again"
        yield from self._granted(entry, event, firm=firm)

    def paused(self, event: GangPaused) -> Iterator[Found]:
        """Give the gang's devices back; what is wrong with that."""
        yield from self._gives(event)
        self._resting[event.job] = self._held.pop(event.job, (event.project, 0, False))
        yield from self._left(event, self._resting[event.job])

    def released(self, event: GangReleased) -> Iterator[Found]:
        """Give the gang's devices back, if it still had them; what is wrong with that."""
        yield from self._gives(event)
        if self._resting.pop(event.job, None) is None:
            yield from self._left(event, self._held.pop(event.job, (event.project, 0, False)))
        elif event.shares:
            yield "I1", f"{event.job} gives devices back that it had left"

    def _books(self, event: GangPlaced | GangResumed) -> Iterator[Found]:
        for worker in event.workers:
            for share in worker.devices:
                if self._node.get(share.device) != worker.node:
                    yield "I1", f"{share.device} is not a device of {worker.node}"
                if share.milli <= 0:
                    yield "I1", f"{event.job} books {share.milli} of {share.device}"
        for guard in guards_of(event):
            self._milli[guard.key] += guard.delta
            if self._milli[guard.key] > guard.limit:
                yield "I1", f"{guard.key} is booked for {self._milli[guard.key]} of {DEVICE_MILLI}"
        shares = [share.milli for worker in event.workers for share in worker.devices]
        if sum(shares) != event.milli:
            yield "I1", f"{event.job} says {event.milli} milli and books {sum(shares)}"

    def _gives(self, event: GangReleased | GangPaused) -> Iterator[Found]:
        for guard in guards_of(event):
            self._milli[guard.key] += guard.delta
            if self._milli[guard.key] < 0:
                yield "I1", f"{guard.key} is given back without being booked"

    def _left(
        self, event: GangReleased | GangPaused, held: tuple[str, int, bool]
    ) -> Iterator[Found]:
        project, milli, firm = held
        if milli != event.milli:
            yield "I1", f"{event.job} held {milli} milli and gives {event.milli} back"
        self._use(project, -milli, firm=firm)

    def _granted(
        self, entry: Entry, event: GangPlaced | GangResumed, *, firm: bool
    ) -> Iterator[Found]:
        self._held[event.job] = (event.project, event.milli, firm)
        self._use(event.project, event.milli, firm=firm)
        if entry.header.basis < self._configured_at:
            return  # decided on a tree that has changed since: a race, and no violation
        for queue in self._path(event.project):
            used, held = self.used[queue.queue], self.firm[queue.queue]
            limit, quota = queue.limit_milli, queue.quota_milli
            if limit != UNLIMITED and used > limit:
                yield "I5", f"{queue.queue} holds {used} above its limit {limit}"
            if firm and quota != UNLIMITED and held > quota:
                yield "I5", f"{queue.queue} holds {held} firmly above its quota {quota}"

    def _use(self, project: str, milli: int, *, firm: bool) -> None:
        for queue in self._path(project):
            self.used[queue.queue] += milli
            self.firm[queue.queue] += milli if firm else 0

    def _path(self, project: str) -> list[Queue]:
        """The queue and everything above it."""
        path: list[Queue] = []
        name = project
        while name in self.queues and len(path) < DEPTH_MAX:
            path.append(self.queues[name])
            name = path[-1].parent
        return path
