"""I15: who waits is told when it starts at the latest, and starts by then.

Rule: whoever has a reservation is placed by the first decision of placement made at its moment or
later, on a log in which nothing excuses. What excuses, and nothing else:

- a holder overstays: it holds what it was given for longer than its maximum duration (starting and
  stopping take time), or is being stopped or ending, on a node of the reservation or under a limit
  that both are under. One that was itself placed later than its own
  reservation, or than those were to be gone who were stopped for it, counts from that moment;
- another reservation there that was to be over by then has not begun, for a reason of this list;
- a limit above the job (a quota, if it cannot be preempted) was lowered: then it starts when those
  have ended who were under it;
- a node of the reservation was lost, fenced, cordoned or joined with other hardware, or a pool was
  changed: what was promised is void. It may be withdrawn, or promised anew for later; nothing else
  may, except after a limit was lowered.

A gang that has waited for `reserve_after_s` is told in the next decision, if it can ever run: what
proves that is its placement, later, on nodes and under queues that have not changed in between. It
need not be told while `reservations_max` others are, or one alike of its project, or while there are
more holders than a turn looks at (`reserve_steps_max`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from headrace.events import Entry
from headrace.events.attempts import AttemptExited
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangReserved,
    GangShrunk,
    GuardTripped,
    WorkersReleased,
)
from headrace.events.jobs import JobAdmitted, JobCancelling, JobEligible, JobFinished, JobHeld
from headrace.events.nodes import NodeChanged, NodeHeard, NodeJoined, NodeSilent
from headrace.events.platform import ServiceLed
from headrace.events.pools import PoolConfigured
from headrace.events.queues import Queue, QueueConfigured
from headrace.verification.life import NEVER
from headrace.verification.waits import Holding, Promise, Wait

SECOND_US = 1_000_000
MAX_DURATION_US = 86_400 * SECOND_US  # of a job that was admitted without any
SETTINGS = {  # of placement, where whoever led did not record them
    "reserve_after_s": 600,
    "release_s": 60,
    "reservations_max": 8,
    "reserve_steps_max": 600,
}
STEPS_PER_END = 6  # a search enters an end three times at most, and has half of what is left
DEPTH_MAX = 32  # levels of the queue tree that are looked at

Found = tuple[str, str]  # invariant, what
Check = Callable[[Entry, Any], Iterable[Found]]


class Promises:
    """Who waits, who holds what until when, and what was promised."""

    def __init__(self) -> None:
        self._settings = SETTINGS
        self._waits: dict[str, Wait] = {}
        self._promised: dict[str, Promise] = {}
        self._holdings: dict[str, Holding] = {}
        self._queues: dict[str, Queue] = {}
        self._nodes: dict[str, NodeJoined] = {}
        self._changed: dict[str, int] = {}  # nodes, queues: when last
        self._pools_changed = self._released_at = 0
        self._full, self._alike = False, set[Hashable]()
        self._on: dict[type[Any], Check] = {
            ServiceLed: self._led,
            JobAdmitted: self._admitted,
            JobEligible: self._eligible,
            JobHeld: self._held,
            JobCancelling: self._over,
            JobFinished: self._over,
            GangPlaced: self._placed,
            GangGrown: self._grown,
            GangShrunk: self._evicted,
            GangEvicted: self._evicted,
            WorkersReleased: self._workers_released,
            AttemptExited: self._exited,
            GangReleased: self._released,
            GangReserved: self._reserved,
            GuardTripped: self._tripped,
            NodeJoined: self._joined,
            NodeChanged: self._node_changed,
            NodeSilent: self._node_changed,
            NodeHeard: self._node_changed,
            QueueConfigured: self._configured,
            PoolConfigured: self._pool_configured,
        }

    def check(self, entry: Entry) -> Iterator[Found]:
        """Fold the next entry; what it breaks."""
        header = entry.header
        is_placements = bool(header.count) and type(entry.event).owner == "placement"
        if is_placements and header.index == 0:
            self._full, self._alike = self._is_full(), self._kinds_told()
        handle = self._on.get(type(entry.event))
        if handle is not None:
            yield from handle(entry, entry.event)
        if is_placements and header.index == header.count - 1:
            if header.basis >= self._released_at:
                yield from self._late(entry)
            if not self._full:
                self._notice_untold(entry)

    def _late(self, entry: Entry) -> Iterator[Found]:
        """Who should have been placed in what was decided at once."""
        now_us, basis = entry.header.decided_at_us, entry.header.basis
        for job, promise in self._promised.items():
            is_judged = promise.due_us <= now_us and promise.basis < basis and not promise.void
            if is_judged and not self._is_excused(job, now_us):
                promise.void = True  # told once
                yield "I15", f"{job} was to start at {promise.at_us} and waits at {now_us}"

    def _notice_untold(self, entry: Entry) -> None:
        """Remember who should have been told in what was decided at once."""
        now_us, basis = entry.header.decided_at_us, entry.header.basis
        after_us = self._settings["reserve_after_s"] * SECOND_US
        alike = self._alike | self._kinds_told()
        for job, wait in self._waits.items():
            has_waited = wait.since <= basis and now_us - wait.admitted_us >= after_us
            is_told = job in self._promised or now_us <= wait.room_us < NEVER or wait.kind in alike
            if has_waited and not wait.untold and not is_told:
                wait.untold = basis

    def _kinds_told(self) -> set[Hashable]:
        return {self._waits[job].kind for job in self._promised}

    def _is_excused(self, job: str, now_us: int) -> bool:
        """Whether somebody else is the reason that the job still waits."""
        for other, holding in self._holdings.items():
            overstays = holding.end_us <= now_us or holding.leaving != NEVER
            if overstays and self._meet(job, self._waits[other].project, holding.nodes):
                return True
        for other, theirs in self._promised.items():
            wait = self._waits[other]
            was_to_end = other != job and theirs.at_us + wait.max_us <= now_us
            if was_to_end and self._meet(job, wait.project, theirs.nodes):
                return True
        return False

    def _meet(self, job: str, project: str, nodes: frozenset[str]) -> bool:
        """Whether whoever is on these nodes, of that project, may be in the job's way."""
        if nodes & self._promised[job].nodes:
            return True
        wait = self._waits[job]
        theirs = {queue.queue for queue in self._path(project)}
        shared = [queue for queue in self._path(wait.project) if queue.queue in theirs]
        return any(_limits(queue, firm=wait.firm) for queue in shared)

    def _is_full(self) -> bool:
        told = len(self._promised)
        ends = len(self._holdings) + 2 * told
        steps = STEPS_PER_END * ends * (told + 1)
        limits = self._settings
        return told >= limits["reservations_max"] or steps > limits["reserve_steps_max"]

    def _led(self, _entry: Entry, event: ServiceLed) -> Iterable[Found]:
        if event.service == "placement":
            self._settings = {**SETTINGS, **event.settings}
        return ()

    def _admitted(self, entry: Entry, event: JobAdmitted) -> Iterable[Found]:
        if not event.tasks:
            self._waits[event.job] = Wait(
                admitted_us=entry.recorded_at_us,
                project=event.project,
                kind=(event.project, event.priority, event.preemptible, event.max_duration_us,
                      event.gang),
                firm=not event.preemptible,
                max_us=event.max_duration_us or MAX_DURATION_US,
            )  # fmt: skip
        return ()

    def _eligible(self, entry: Entry, event: JobEligible) -> Iterable[Found]:
        wait = self._waits.get(event.job)
        if wait is not None and event.job not in self._holdings:
            wait.wait(entry.position)
        return ()

    def _held(self, entry: Entry, event: JobHeld) -> Iterable[Found]:
        self._rest(entry, event.job)
        return ()

    def _over(self, entry: Entry, event: JobCancelling | JobFinished) -> Iterable[Found]:
        self._rest(entry, event.job)
        if isinstance(event, JobFinished):
            self._waits.pop(event.job, None)
        return ()

    def _placed(self, entry: Entry, event: GangPlaced) -> Iterable[Found]:
        wait = self._waits.get(event.job)
        if wait is None:
            return
        nodes = frozenset(worker.node for worker in event.workers)
        if wait.untold and self._unchanged_since(wait.untold, wait.project, nodes):
            yield (
                "I15",
                f"{event.job} was not told since {wait.untold} when it starts at the latest",
            )
        from_us = min(entry.header.decided_at_us, wait.room_us)
        if event.job in self._promised:
            from_us = min(from_us, self._promised[event.job].at_us)
        self._holdings[event.job] = Holding(event.attempt, nodes, from_us + wait.max_us)
        self._rest(entry, event.job)

    def _grown(self, _entry: Entry, event: GangGrown) -> Iterable[Found]:
        holding = self._holdings.get(event.job)
        if holding is not None:
            holding.nodes |= {worker.node for worker in event.workers}
        return ()

    def _workers_released(self, entry: Entry, event: WorkersReleased) -> Iterable[Found]:
        """What was leaving of an elastic gang has left, or its machine was lost."""
        self._released_at = entry.position
        holding = self._holdings.get(event.job)
        if holding is not None:
            holding.leaving = NEVER
        return ()

    def _evicted(self, entry: Entry, event: GangEvicted | GangShrunk) -> Iterable[Found]:
        holding, gainer = self._holdings.get(event.job), self._waits.get(event.gainer)
        if holding is not None:
            holding.leaving = entry.position
        if gainer is not None:
            room_us = entry.header.decided_at_us + self._settings["release_s"] * SECOND_US
            gainer.room_us = min(gainer.room_us, room_us)
        return ()

    def _exited(self, entry: Entry, event: AttemptExited) -> Iterable[Found]:
        """A worker has gone, and the others will."""
        holding = self._holdings.get(event.job)
        if holding is not None and holding.attempt == event.attempt:
            holding.leaving = min(holding.leaving, entry.position)
        return ()

    def _released(self, entry: Entry, event: GangReleased) -> Iterable[Found]:
        self._holdings.pop(event.job, None)
        self._released_at = entry.position
        wait = self._waits.get(event.job)
        if wait is not None and event.again:
            wait.wait(entry.position)
        return ()

    def _reserved(self, entry: Entry, event: GangReserved) -> Iterable[Found]:
        wait, before = self._waits.get(event.job), self._promised.get(event.job)
        basis, may_change = entry.header.basis, before is None or before.void
        if before is not None and before.due_us > before.at_us:
            may_change = True
        if wait is None or (wait.since == NEVER and wait.rested <= basis):
            yield "I15", f"{event.job} is promised seats and does not wait"
        elif wait.since == NEVER:
            pass  # it ceased to wait when this was decided already
        elif not event.seats:
            self._promised.pop(event.job, None)
            if not may_change:
                yield "I15", f"{event.job} is promised nothing any more, and nothing was lost"
        else:
            nodes = frozenset(seat.node for seat in event.seats)
            self._promised[event.job] = Promise(event.at_us, basis, nodes)
            wait.untold = 0
            if before is not None and event.at_us > before.at_us and not may_change:
                yield "I15", f"{event.job} was promised {before.at_us} and then {event.at_us}"

    def _tripped(self, entry: Entry, event: GuardTripped) -> Iterable[Found]:
        for node in self._nodes.values():
            if any(device.device == event.device for device in node.devices):
                self._lost(entry, node.node)
        return ()

    def _joined(self, entry: Entry, event: NodeJoined) -> Iterable[Found]:
        before = self._nodes.get(event.node)
        self._nodes[event.node] = event
        if before is None or _hardware(before) != _hardware(event):
            self._lost(entry, event.node)
        return ()

    def _node_changed(
        self, entry: Entry, event: NodeChanged | NodeSilent | NodeHeard
    ) -> Iterable[Found]:
        if isinstance(event, NodeHeard) or (
            isinstance(event, NodeChanged) and event.change == "uncordon"
        ):
            self._changed[event.node] = entry.position
        else:
            self._lost(entry, event.node)
        return ()

    def _configured(self, entry: Entry, event: QueueConfigured) -> Iterable[Found]:
        before = self._queues.get(event.name)
        self._queues[event.name] = event.queue
        if event.change == "unchanged":
            return ()
        self._changed[f"queue {event.name}"] = entry.position
        under = [job for job, wait in self._waits.items() if self._is_under(wait, event.name)]
        ends = [self._holdings[job].end_us for job in under if job in self._holdings]
        told = [job for job in under if job in self._promised]
        ends += (self._promised[job].at_us + self._waits[job].max_us for job in told)
        for job in told:
            if before is None or _is_lowered(before, event.queue, firm=self._waits[job].firm):
                promise = self._promised[job]
                promise.due_us = max(promise.due_us, *ends)
        return ()

    def _pool_configured(self, entry: Entry, event: PoolConfigured) -> Iterable[Found]:
        if event.change != "unchanged":
            self._pools_changed = entry.position
            for promise in self._promised.values():
                promise.void = True
        return ()

    def _lost(self, entry: Entry, node: str) -> None:
        """What was promised there is void."""
        self._changed[node] = entry.position
        for promise in self._promised.values():
            promise.void |= node in promise.nodes

    def _rest(self, entry: Entry, job: str) -> None:
        """It does not wait any more."""
        self._promised.pop(job, None)
        if job in self._waits:
            self._waits[job].rest(entry.position)

    def _is_under(self, wait: Wait, queue: str) -> bool:
        return any(above.queue == queue for above in self._path(wait.project))

    def _unchanged_since(self, position: int, project: str, nodes: frozenset[str]) -> bool:
        names = [*nodes, *(f"queue {queue.queue}" for queue in self._path(project))]
        changed = max(self._changed.get(name, 0) for name in names)
        return max(changed, self._pools_changed) <= position

    def _path(self, project: str) -> list[Queue]:
        path: list[Queue] = []
        while project in self._queues and len(path) < DEPTH_MAX:
            path.append(self._queues[project])
            project = path[-1].parent
        return path


def _bounds(queue: Queue, *, firm: bool) -> list[int]:
    """What may keep a job of this queue waiting; below 0 are no bounds."""
    bounds = [queue.limit_milli, queue.user_max_milli, queue.cpu_limit_milli]
    bounds.append(queue.memory_limit_bytes)
    return [*bounds, queue.quota_milli] if firm else bounds


def _parts(queue: Queue) -> dict[str, int]:
    """The limits of parts of the fleet."""
    return {
        name: part.limit_milli
        for parts in (queue.per_type, queue.per_pool)
        for name, part in parts.items()
    }


def _limits(queue: Queue, *, firm: bool) -> bool:
    """Whether what one job holds of this queue may keep another waiting."""
    return any(bound >= 0 for bound in (*_bounds(queue, firm=firm), *_parts(queue).values()))


def _is_lowered(before: Queue, now: Queue, *, firm: bool) -> bool:
    """Whether a bound is lower, or another queue's are in the way."""
    old, parts = _bounds(before, firm=firm), _parts(before)
    pairs = [*zip(old, _bounds(now, firm=firm), strict=True)]
    pairs += ((parts.get(name, -1), bound) for name, bound in _parts(now).items())
    lowered = any(bound >= 0 and (was < 0 or bound < was) for was, bound in pairs)
    return lowered or before.parent != now.parent


def _hardware(node: NodeJoined) -> tuple[object, ...]:
    return (node.devices, node.cpu_milli, node.memory_bytes, node.labels, node.taints)
