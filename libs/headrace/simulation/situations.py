"""What came to pass in a history, as its log tells it: which kinds of jobs ran, and what was done.

Rule: a situation counts when it has happened, not when somebody asked for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.events import Event
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangReserved,
    GangShrunk,
    WorkersReleased,
)
from headrace.events.guards import DEVICE_MILLI
from headrace.events.jobs import JobAdmitted, JobCancelling, JobFinished, JobRetries
from headrace.events.nodes import NodeChanged, NodeJoined, NodeSilent
from headrace.events.pauses import (
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)
from headrace.events.pools import PoolConfigured
from headrace.events.queues import Queue, QueueConfigured
from headrace.events.scheduling import SchedulingConfigured
from headrace.events.sweeps import SweepBest

EVICTIONS = (
    "cancelled", "device-faulty", "finished", "image-dropped", "moved", "pause-broken", "paused",
    "preempted", "reclaimed", "timeout", "worker-failed",
)  # fmt: skip
PAUSES = (
    "away", "back", "for_another", "one_rung_down", "signal", "stop", "taken_back", "waiting",
)  # fmt: skip
SITUATIONS = (
    *(f"after.{how}" for how in ("cancelled", "failed", "in_vain", "succeeded")),
    *(f"evicted.{reason}" for reason in EVICTIONS),
    "gang.again",
    "gang.grown",
    "gang.lost_a_part",
    "gang.made_room",
    "gang.shrunk",
    "job.fraction",
    "job.gang",
    "job.gpu_memory",
    "job.high_priority",
    "job.in_pool",
    "job.max_duration",
    "job.non_preemptible",
    "job.preferences",
    "job.rested",
    "job.retried",
    "job.roles",
    "job.semi_preemptible",
    "job.slice",
    "job.sweep",
    "job.timed_out",
    "job.topology_preferred",
    "job.topology_required",
    "node.fenced_out",
    "node.rebooted_anew",
    "node.silent_for_long",
    *(f"pause.{how}" for how in PAUSES),
    "pool.updated",
    "queue.limit_lowered_below_use",
    "queue.min_runtime",
    "queue.quota_lowered_below_use",
    "queue.users_equal",
    "reservation.earlier",
    "reservation.kept",
    "reservation.made",
    "reservation.withdrawn",
    "scheduling.configured",
    "sweep.better",
)


def situations(log: Iterable[Event]) -> Counter[str]:
    """How often each situation occurred."""
    seen = _Seen()
    found: Counter[str] = Counter()
    for event in log:
        found.update(_ALWAYS.get(type(event), ()))
        look = _ON.get(type(event))
        if look is not None:
            found.update(look(seen, event))
    return found


class _Seen:
    """As much of the past as it takes to tell a situation."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobAdmitted] = {}
        self.queues: dict[str, Queue] = {}
        self.held: Counter[str] = Counter()  # milli, by queue with all below it
        self.boots: dict[str, str] = {}
        self.reserved: dict[str, int] = {}  # the moment, by job
        self.ended: dict[str, str] = {}  # how
        self.pausing: dict[str, None] = {}  # jobs that are to pause and have not

    def hold(self, project: str, milli: int) -> None:
        name, levels = project, len(self.queues)
        while name in self.queues and levels:
            self.held[name] += milli
            name, levels = self.queues[name].parent, levels - 1


def _admitted(seen: _Seen, event: JobAdmitted) -> Iterator[str]:
    seen.jobs[event.job] = event
    return iter(())


def _placed(seen: _Seen, event: GangPlaced) -> Iterator[str]:
    seen.hold(event.project, event.milli)
    if event.job in seen.reserved:
        del seen.reserved[event.job]
        yield "reservation.kept"
    if event.act.rule == "made-room":
        yield "gang.made_room"
    job, queue = seen.jobs[event.job], seen.queues.get(event.project)
    yield from (f"after.{seen.ended[awaited.job]}" for awaited in job.after)
    yield from (name for name, is_so in _TRAITS.items() if is_so(job))
    if queue is not None and queue.users_equal:
        yield "queue.users_equal"
    if queue is not None and max(queue.preempt_after_us, queue.reclaim_after_us) > 0:
        yield "queue.min_runtime"


def _finished(seen: _Seen, event: JobFinished) -> Iterator[str]:
    if event.reason == "timeout":
        yield "job.timed_out"
    seen.ended[event.job] = event.outcome


def _cancelling(_seen: _Seen, event: JobCancelling) -> Iterator[str]:
    if event.reason == "dependency":
        yield "after.in_vain"


def _released(seen: _Seen, event: GangReleased) -> Iterator[str]:
    seen.hold(event.project, -event.milli)
    if event.again:
        yield "gang.again"
    if event.reason == "error":
        yield "job.retried"


def _grown(seen: _Seen, event: GangGrown) -> Iterator[str]:
    seen.hold(event.project, event.milli)
    yield "gang.grown"


def _shrunk(_seen: _Seen, event: GangShrunk) -> Iterator[str]:
    if event.gainer:
        yield "gang.shrunk"


def _workers_released(seen: _Seen, event: WorkersReleased) -> Iterator[str]:
    seen.hold(event.project, -event.milli)
    if event.reason == "node-lost":
        yield "gang.lost_a_part"


def _evicted(_seen: _Seen, event: GangEvicted) -> Iterator[str]:
    yield f"evicted.{event.reason}"
    if event.act.rule == "one-rung-down":
        yield "pause.one_rung_down"


def _pausing(_seen: _Seen, event: GangPausing) -> Iterator[str]:
    if event.gainer and event.phase == "locked":
        yield "pause.for_another"


def _away(seen: _Seen, event: GangPaused) -> Iterator[str]:
    seen.hold(event.project, -event.milli)
    yield "pause.away"


def _back(seen: _Seen, event: GangResumed) -> Iterator[str]:
    seen.hold(event.project, event.milli)
    yield "pause.back"


def _asked(seen: _Seen, event: JobPausing) -> Iterator[str]:
    seen.pausing[event.job] = None
    return iter(())


def _paused(seen: _Seen, event: JobPaused) -> Iterator[str]:
    seen.pausing.pop(event.job, None)
    if event.way in PAUSES:
        yield f"pause.{event.way}"


def _taken_back(seen: _Seen, event: JobResuming) -> Iterator[str]:
    if event.job in seen.pausing:
        del seen.pausing[event.job]
        yield "pause.taken_back"


def _reserved(seen: _Seen, event: GangReserved) -> Iterator[str]:
    before = seen.reserved.pop(event.job, None)
    if not event.seats:
        yield "reservation.withdrawn"
        return
    seen.reserved[event.job] = event.at_us
    yield "reservation.made" if before is None else "reservation.earlier"


def _configured(seen: _Seen, event: QueueConfigured) -> Iterator[str]:
    before, now, held = seen.queues.get(event.name), event.queue, seen.held[event.name]
    seen.queues[event.name] = now
    if before is None:
        return
    if now.quota_milli < min(held, before.quota_milli):
        yield "queue.quota_lowered_below_use"
    if 0 <= now.limit_milli < held:
        yield "queue.limit_lowered_below_use"


def _joined(seen: _Seen, event: NodeJoined) -> Iterator[str]:
    if seen.boots.get(event.node, event.boot) != event.boot:
        yield "node.rebooted_anew"
    seen.boots[event.node] = event.boot


def _changed(_seen: _Seen, event: NodeChanged) -> Iterator[str]:
    if event.change == "fence":
        yield "node.fenced_out"


def _pool(_seen: _Seen, event: PoolConfigured) -> Iterator[str]:
    if event.change == "updated":
        yield "pool.updated"


def _is_share(job: JobAdmitted) -> bool:
    return any(kind.milli < DEVICE_MILLI for kind in job.gang.accelerators)


_TRAITS: dict[str, Callable[[JobAdmitted], bool]] = {  # of a job that is placed
    "job.fraction": _is_share,
    "job.gang": lambda job: job.gang.nodes > 1,
    "job.gpu_memory": lambda job: bool(job.gang.gpu_memory_bytes),
    "job.high_priority": lambda job: job.priority > 50,
    "job.in_pool": lambda job: bool(job.gang.pools),
    "job.max_duration": lambda job: job.max_duration_us < 5_000_000,
    "job.non_preemptible": lambda job: not job.preemptible,
    "job.preferences": lambda job: len(job.gang.accelerators) > 1,
    "job.roles": lambda job: bool(job.gang.roles),
    "job.semi_preemptible": lambda job: job.preemptible and job.protected_minimum,
    "job.slice": lambda job: any(kind.profile for kind in job.gang.accelerators),
    "job.sweep": lambda job: bool(job.group),
    "job.topology_preferred": lambda job: bool(job.gang.topology_preferred),
    "job.topology_required": lambda job: bool(job.gang.topology_required),
}

_ALWAYS: dict[type[Any], tuple[str]] = {  # of which each is a situation
    JobRetries: ("job.rested",),
    NodeSilent: ("node.silent_for_long",),
    SchedulingConfigured: ("scheduling.configured",),
}

_ON: dict[type[Any], Callable[[_Seen, Any], Iterator[str]]] = {
    JobAdmitted: _admitted,
    JobCancelling: _cancelling,
    JobFinished: _finished,
    GangPlaced: _placed,
    GangReleased: _released,
    GangGrown: _grown,
    GangShrunk: _shrunk,
    WorkersReleased: _workers_released,
    GangEvicted: _evicted,
    GangPausing: _pausing,
    GangPaused: _away,
    GangResumed: _back,
    JobPausing: _asked,
    JobPaused: _paused,
    JobResuming: _taken_back,
    GangReserved: _reserved,
    QueueConfigured: _configured,
    NodeJoined: _joined,
    NodeChanged: _changed,
    PoolConfigured: _pool,
    SweepBest: lambda _, event: iter(("sweep.better",) if event.before else ()),
}
