"""I1 and I5: no device above its capacity, no queue above what it may have, at every grant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from headrace.events import Entry
from headrace.events.gangs import GangGrown, GangPlaced, GangReleased, WorkersReleased
from headrace.events.guards import DEVICE_MILLI, guards_of
from headrace.events.nodes import NodeJoined
from headrace.events.pauses import GangPaused, GangResumed
from headrace.events.queues import Queue, QueueConfigured, QueueDeleted
from headrace.scheduling.kinds import is_model

UNLIMITED = -1
DEPTH_MAX = 32  # levels of the queue tree that are looked at

Found = tuple[str, str]  # invariant, what
FirmOf = Callable[[str, list[int]], list[int]]  # of a job, which of these ranks, in order
Books = GangPlaced | GangGrown | GangResumed
Models = Counter[str]  # milli-GPUs by the model of the GPU


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
        self._devices: dict[str, set[str]] = {}  # by node, as it said last
        self._model: dict[str, str] = {}  # and of which model it is
        self._held: dict[str, _Held] = {}  # by job
        self._configured_at = 0

    def joined(self, event: NodeJoined) -> Iterator[Found]:
        """The node has these devices, which no other has."""
        self._devices[event.node] = {device.device for device in event.devices}
        for device in event.devices:
            holder = self._node.get(device.device, event.node)
            if holder != event.node and device.device in self._devices.get(holder, ()):
                yield "I1", f"{device.device} is a device of {holder} and of {event.node}"
            self._node[device.device] = event.node
            self._model[device.device] = device.model

    def node_gone(self, node: str) -> None:
        """It was deleted, and may have given its devices to another."""
        self._devices.pop(node, None)

    def configured(self, entry: Entry, event: QueueConfigured) -> None:
        """The queue stands like this from now on, perhaps under another parent."""
        self.queues[event.name] = event.queue
        self._regrown(entry)

    def deleted(self, entry: Entry, event: QueueDeleted) -> None:
        """The queue is no more."""
        self.queues.pop(event.name, None)
        self._regrown(entry)

    def _regrown(self, entry: Entry) -> None:
        """What is held counts in the tree as it is from now on."""
        self._configured_at = entry.position
        self.used.clear()
        self.firm.clear()
        self._models.clear()
        self._firm_models.clear()
        for held in self._held.values():
            self._use(held, 1)

    def booked(self, entry: Entry, event: Books, firm: FirmOf) -> Iterator[Found]:
        """Book these workers; what is wrong with that. `firm` says which workers of the job cannot
        be preempted.
        """
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
        yield from self._granted(entry, event, firm)

    def released(self, event: GangReleased | GangPaused) -> Iterator[Found]:
        """Give back what the gang has left; what is wrong with that."""
        yield from self._unbooked(event)
        held = self._held.pop(event.job, None) or _Held(event.project)
        if held.milli != event.milli:
            yield "I1", f"{event.job} held {held.milli} milli and gives {event.milli} back"
        self._use(held, -1)

    def given_back(self, event: WorkersReleased, firm: FirmOf) -> Iterator[Found]:
        """Give these workers' devices back; what is wrong with that."""
        yield from self._unbooked(event)
        held = self._held.setdefault(event.job, _Held(event.project))
        gone = [held.workers.pop(rank, Models()).total() for rank in event.ranks]
        if sum(gone) != event.milli:
            yield "I1", f"{event.job} held {sum(gone)} milli and gives {event.milli} back"
        self._count(event.job, held, firm)

    def _unbooked(self, event: GangReleased | GangPaused | WorkersReleased) -> Iterator[Found]:
        for guard in guards_of(event):
            self._milli[guard.key] += guard.delta
            if self._milli[guard.key] < 0:
                yield "I1", f"{guard.key} is given back without being booked"

    def _granted(self, entry: Entry, event: Books, firm: FirmOf) -> Iterator[Found]:
        held = self._held.setdefault(event.job, _Held(event.project))
        before_milli = held.firm_milli
        for worker in event.workers:
            mine = held.workers[worker.rank] = Counter()
            for share in worker.devices:
                mine[self._model.get(share.device, "")] += share.milli
        self._count(event.job, held, firm)
        if entry.header.basis < self._configured_at:
            return  # decided on a tree that has changed since: a race, and no violation
        more_firm = held.firm_milli > before_milli
        for queue in self._path(event.project):
            used, firmly = self.used[queue.queue], self.firm[queue.queue]
            limit, quota = queue.limit_milli, queue.quota_milli
            if limit != UNLIMITED and used > limit:
                yield "I5", f"{queue.queue} holds {used} above its limit {limit}"
            if more_firm and quota != UNLIMITED and firmly > quota:
                yield "I5", f"{queue.queue} holds {firmly} firmly above its quota {quota}"
            yield from self._granted_of_types(queue, held, more_firm=more_firm)

    def _granted_of_types(self, queue: Queue, held: _Held, *, more_firm: bool) -> Iterator[Found]:
        for name, part in queue.per_type.items():
            got = any(milli and is_model(model, name) for model, milli in held.models.items())
            fitting = [m for m in sorted(set(self._model.values())) if is_model(m, name)]
            used = sum(self._models[queue.queue, model] for model in fitting)
            firmly = sum(self._firm_models[queue.queue, model] for model in fitting)
            if got and part.limit_milli != UNLIMITED and used > part.limit_milli:
                yield "I5", f"{queue.queue} holds {used} of {name} above {part.limit_milli}"
            if got and more_firm and 0 < part.quota_milli < firmly:
                yield "I5", f"{queue.queue} holds {firmly} of {name} firmly above its quota"

    def _count(self, job: str, held: _Held, firm: FirmOf) -> None:
        """What the job has now, instead of what it had, and of that firmly."""
        self._use(held, -1)
        ranks = sorted(held.workers)
        held.models = _summed(held.workers[rank] for rank in ranks)
        held.firm_models = _summed(held.workers[rank] for rank in firm(job, ranks))
        self._use(held, 1)

    def _use(self, held: _Held, sign: int) -> None:
        for queue in self._path(held.project):
            name = queue.queue
            self.used[name] += sign * held.milli
            self.firm[name] += sign * held.firm_milli
            for model, milli in held.models.items():
                self._models[name, model] += sign * milli
            for model, milli in held.firm_models.items():
                self._firm_models[name, model] += sign * milli

    def _path(self, project: str) -> list[Queue]:
        """The queue and everything above it."""
        path: list[Queue] = []
        name = project
        while name in self.queues and len(path) < DEPTH_MAX:
            path.append(self.queues[name])
            name = path[-1].parent
        return path


class _Held:
    """What a job has by rank, in all, and of that firmly."""

    __slots__ = ("firm_models", "models", "project", "workers")

    def __init__(self, project: str) -> None:
        self.project = project
        self.workers: dict[int, Models] = {}
        self.models, self.firm_models = Models(), Models()

    @property
    def milli(self) -> int:
        return self.models.total()

    @property
    def firm_milli(self) -> int:
        return self.firm_models.total()


def _summed(parts: Iterable[Models]) -> Models:
    found = Models()
    for part in parts:
        found.update(part)
    return found
