"""I1 and I5: no device above its capacity, no queue above what it may have, at every grant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from headrace.events import Entry
from headrace.events.gangs import GangPlaced, GangReleased
from headrace.events.guards import DEVICE_MILLI, guards_of
from headrace.events.nodes import NodeJoined
from headrace.events.queues import Queue, QueueConfigured
from headrace.scheduling.kinds import is_model

UNLIMITED = -1
DEPTH_MAX = 32  # levels of the queue tree that are looked at

Found = tuple[str, str]  # invariant, what
Models = dict[str, int]  # milli-GPUs by the model of the GPU


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has."""

    project: str
    milli: int
    firm: bool
    models: Models


class Bookings:
    """Who holds how much of what."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.used: Counter[str] = Counter()  # by queue, with all below it
        self.firm: Counter[str] = Counter()  # of that, by jobs that cannot be preempted
        self._milli: Counter[str] = Counter()  # by guard key
        self._models: Counter[tuple[str, str]] = Counter()  # used by queue, of each model of GPU
        self._firm_models: Counter[tuple[str, str]] = Counter()
        self._node: dict[str, str] = {}  # which node has the device
        self._model: dict[str, str] = {}  # and of which model it is
        self._held: dict[str, Held] = {}  # by job
        self._configured_at = 0

    def joined(self, event: NodeJoined) -> None:
        """The node has these devices."""
        for device in event.devices:
            self._node[device.device] = event.node
            self._model[device.device] = device.model

    def configured(self, entry: Entry, event: QueueConfigured) -> None:
        """The queue stands like this from now on, perhaps under another parent."""
        self.queues[event.name] = event.queue
        self._configured_at = entry.position
        self.used.clear()
        self.firm.clear()
        self._models.clear()
        self._firm_models.clear()
        for held in self._held.values():
            self._use(held, 1)

    def placed(self, entry: Entry, event: GangPlaced, *, firm: bool) -> Iterator[Found]:
        """Book the gang; what is wrong with that."""
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
        yield from self._granted(entry, event, firm=firm)

    def released(self, event: GangReleased) -> Iterator[Found]:
        """Give the gang's devices back; what is wrong with that."""
        for guard in guards_of(event):
            self._milli[guard.key] += guard.delta
            if self._milli[guard.key] < 0:
                yield "I1", f"{guard.key} is given back without being booked"
        nothing = Held(project=event.project, milli=0, firm=False, models={})
        held = self._held.pop(event.job, nothing)
        if held.milli != event.milli:
            yield "I1", f"{event.job} held {held.milli} milli and gives {event.milli} back"
        self._use(held, -1)

    def _granted(self, entry: Entry, event: GangPlaced, *, firm: bool) -> Iterator[Found]:
        models: Counter[str] = Counter()
        for share in (share for worker in event.workers for share in worker.devices):
            models[self._model.get(share.device, "")] += share.milli
        held = Held(project=event.project, milli=event.milli, firm=firm, models=models)
        self._held[event.job] = held
        self._use(held, 1)
        if entry.header.basis < self._configured_at:
            return  # decided on a tree that has changed since: a race, and no violation
        for queue in self._path(event.project):
            used, firmly = self.used[queue.queue], self.firm[queue.queue]
            limit, quota = queue.limit_milli, queue.quota_milli
            if limit != UNLIMITED and used > limit:
                yield "I5", f"{queue.queue} holds {used} above its limit {limit}"
            if firm and quota != UNLIMITED and firmly > quota:
                yield "I5", f"{queue.queue} holds {firmly} firmly above its quota {quota}"
            yield from self._granted_of_types(queue, held)

    def _granted_of_types(self, queue: Queue, held: Held) -> Iterator[Found]:
        for name, part in queue.per_type.items():
            got = any(milli and is_model(model, name) for model, milli in held.models.items())
            fitting = [m for m in sorted(set(self._model.values())) if is_model(m, name)]
            used = sum(self._models[queue.queue, model] for model in fitting)
            firmly = sum(self._firm_models[queue.queue, model] for model in fitting)
            if got and part.limit_milli != UNLIMITED and used > part.limit_milli:
                yield "I5", f"{queue.queue} holds {used} of {name} above {part.limit_milli}"
            if got and held.firm and 0 < part.quota_milli < firmly:
                yield "I5", f"{queue.queue} holds {firmly} of {name} firmly above its quota"

    def _use(self, held: Held, sign: int) -> None:
        for queue in self._path(held.project):
            name = queue.queue
            self.used[name] += sign * held.milli
            self.firm[name] += sign * held.milli if held.firm else 0
            for model, milli in held.models.items():
                self._models[name, model] += sign * milli
                self._firm_models[name, model] += sign * milli if held.firm else 0

    def _path(self, project: str) -> list[Queue]:
        """The queue and everything above it."""
        path: list[Queue] = []
        name = project
        while name in self.queues and len(path) < DEPTH_MAX:
            path.append(self.queues[name])
            name = path[-1].parent
        return path
