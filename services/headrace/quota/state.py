"""What quota knows: the tree, what the fleet has, and every live job's standing.

Rule: folded from the log only; total: what names an unknown job changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.events import Entry
from headrace.events.asked import Gang
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished, JobHeld
from headrace.events.nodes import NodeJoined
from headrace.events.pauses import JobPaused, JobPausing, JobResuming
from headrace.events.platform import ServiceLed
from headrace.events.queues import (
    Queue,
    QueueApplyRequested,
    QueueConfigured,
    QueueRefused,
    SharesDivided,
)
from headrace.scheduling.kinds import is_model
from headrace.scheduling.tree import Usage, add_usage, asked_milli, usage_of

HELD_GROUP = "waits for another task of its group to end"
HELD_QUOTA = "cannot be preempted and waits for room within the quota"

SETTINGS = {
    "shares_interval_us": 1_000_000,  # shares are told to people at most this often
}


class Entrant(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A live job. `kinds` are the models that it accepts, with the milli-GPUs it needs of each, and
    `pools` where. `firm`: it, or its minimum, cannot be preempted. `held` is why it may not compete
    ("": it may, or nothing was decided yet). `pausing`: its people want it paused; `paused`: it is.
    """

    project: str
    milli: int
    admitted_at: int
    kinds: tuple[tuple[str, int], ...] = ()
    pools: tuple[str, ...] = ()
    firm: bool = False
    group: str = ""
    traceparent: str = ""
    eligible: bool = False
    held: str = ""
    pausing: bool = False
    paused: bool = False


class Group(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep or array of which `parallel` tasks compete at a time (0: all)."""

    parallel: int
    tasks: int
    eligible: int = 0
    waiting: dict[str, None] = {}


class Apply(msgspec.Struct, frozen=True, kw_only=True):
    """A document to be judged."""

    queue: Queue
    user: str


class State(msgspec.Struct, kw_only=True, dict=True):
    """All of it. `firm` is what jobs that cannot be preempted hold or were let in for; `wanted` is
    what each project's live jobs ask for.
    """

    settings: dict[str, int] = {}
    queues: dict[str, Queue] = {}
    applied: dict[int, Apply] = {}  # by position of the request
    configured: dict[str, int] = {}  # where each queue's document stands
    capacity: dict[str, int] = {}  # milli-GPUs by node
    models: dict[str, dict[str, int]] = {}  # and by model of GPU
    jobs: dict[str, Entrant] = {}
    groups: dict[str, Group] = {}
    fresh: dict[str, None] = {}  # admitted, nothing decided yet on the tree as it is
    never: dict[str, None] = {}  # held, as no limit of the tree as it is would ever let them run
    firm: dict[str, Usage] = {}
    firm_waiting: dict[str, dict[str, None]] = {}  # by project, in order of admission
    wanted: dict[str, int] = {}
    shares: dict[str, int] = {}
    shares_total_milli: int = -1
    shares_at_us: int = 0
    changed: bool = False  # something that shares depend on, since they were told

    @property
    def total_milli(self) -> int:
        """Thousandths of GPUs of the whole fleet."""
        return sum(self.capacity.values())

    def milli_of(self, model: str) -> int:
        """Thousandths of GPUs of one model; `H100` means any `H100-…`."""
        return sum(
            milli
            for models in self.models.values()
            for name, milli in models.items()
            if is_model(name, model)
        )

    def setting(self, name: str) -> int:
        """A number that `decide` reads: as the current leader recorded it."""
        return self.settings.get(name, SETTINGS[name])


def evolve(state: State, entry: Entry) -> None:
    """Fold one entry."""
    state.__dict__["idle"] = state.__dict__["told"] = False
    _ON[type(entry.event)](state, entry, entry.event)


def _led(state: State, _entry: Entry, event: ServiceLed) -> None:
    if event.service == "quota":
        state.settings = dict(event.settings)


def _applied(state: State, entry: Entry, event: QueueApplyRequested) -> None:
    state.applied[entry.position] = Apply(queue=event.queue, user=event.user)


def _refused(state: State, entry: Entry, _event: QueueRefused) -> None:
    state.applied.pop(entry.header.causation, None)


def _configured(state: State, entry: Entry, event: QueueConfigured) -> None:
    state.applied.pop(entry.header.causation, None)
    if state.queues.get(event.name) == event.queue:
        return
    state.configured[event.name] = entry.position
    state.queues[event.name] = event.queue
    holders = (e for e in state.jobs.values() if e.firm and e.eligible)
    state.firm = usage_of(state.queues, [(e.project, e.milli, True) for e in holders])
    state.fresh |= state.never
    state.never = {}
    state.changed = True


def _joined(state: State, _entry: Entry, event: NodeJoined) -> None:
    milli = 1000 * sum(1 for device in event.devices if device.healthy)
    models = Counter(device.model for device in event.devices if device.healthy)
    state.models[event.node] = {model: 1000 * models[model] for model in sorted(models)}
    if state.capacity.get(event.node) != milli:
        state.capacity[event.node] = milli
        state.changed = True


def _admitted(state: State, entry: Entry, event: JobAdmitted) -> None:
    if event.tasks:
        state.groups[event.job] = Group(parallel=event.tasks_parallel, tasks=event.tasks)
        return
    entrant = Entrant(
        project=event.project,
        milli=asked_milli(event.gang),
        kinds=_kinds_of(event.gang),
        pools=event.gang.pools,
        admitted_at=entry.position,
        firm=not event.preemptible or event.protected_minimum,
        group=event.group,
        traceparent=entry.header.traceparent,
    )
    state.jobs[event.job] = entrant
    state.fresh[event.job] = None
    _want(state, entrant, entrant.milli)


def _kinds_of(gang: Gang) -> tuple[tuple[str, int], ...]:
    """None of a job that asks for a GPU's memory: how much of one that is depends on the GPU; nor of
    one with several roles that have GPUs: which of them is of which kind is placement's to choose.
    """
    parts = [p for p in gang.by_role().values() if p.accelerators or p.gpu_memory_bytes]
    if len(parts) != 1 or parts[0].gpu_memory_bytes:
        return ()
    (part,) = parts
    return tuple((kind.model, kind.milli * part.nodes) for kind in part.accelerators)


def _eligible(state: State, _entry: Entry, event: JobEligible) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is None or entrant.eligible or entrant.paused:
        return
    _leave_lines(state, event.job, entrant)
    entrant.eligible, entrant.held = True, ""
    _compete(state, entrant, 1)


def _held(state: State, _entry: Entry, event: JobHeld) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is None or entrant.paused:
        return
    _leave_lines(state, event.job, entrant)
    entrant.held = event.reason
    group = state.groups.get(entrant.group)
    if event.reason == HELD_GROUP and group is not None:
        group.waiting[event.job] = None
    elif event.reason != HELD_QUOTA:
        state.never[event.job] = None
    else:
        state.firm_waiting.setdefault(entrant.project, {})[event.job] = None


def _paused(state: State, _entry: Entry, event: JobPaused) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is None or entrant.paused:
        return
    _leave_lines(state, event.job, entrant)
    if entrant.eligible:
        _compete(state, entrant, -1)
    entrant.eligible, entrant.held, entrant.paused = False, "", True
    _want(state, entrant, -entrant.milli)
    if not entrant.pausing:
        _competes_again(state, event.job, entrant)


def _wanted(state: State, _entry: Entry, event: JobPausing | JobResuming) -> None:
    entrant = state.jobs.get(event.job)
    if entrant is not None:
        entrant.pausing = isinstance(event, JobPausing)
        if entrant.paused and not entrant.pausing:
            _competes_again(state, event.job, entrant)


def _competes_again(state: State, job_id: str, entrant: Entrant) -> None:
    """As if it had just been admitted."""
    entrant.paused = False
    state.fresh[job_id] = None
    _want(state, entrant, entrant.milli)


def _finished(state: State, _entry: Entry, event: JobFinished) -> None:
    entrant = state.jobs.pop(event.job, None)
    if entrant is None:
        state.groups.pop(event.job, None)
        return
    _leave_lines(state, event.job, entrant)
    if not entrant.paused:
        _want(state, entrant, -entrant.milli)
    if entrant.eligible:
        _compete(state, entrant, -1)


def _divided(state: State, entry: Entry, event: SharesDivided) -> None:
    state.shares, state.shares_total_milli = dict(event.shares), event.total_milli
    state.shares_at_us, state.changed = entry.recorded_at_us, False


def _want(state: State, entrant: Entrant, milli: int) -> None:
    if milli:
        state.wanted[entrant.project] = state.wanted.get(entrant.project, 0) + milli
        state.changed = True


def _compete(state: State, entrant: Entrant, sign: int) -> None:
    """The job has begun (or ceased) to count against its group's and project's numbers."""
    group = state.groups.get(entrant.group)
    if group is not None:
        group.eligible += sign
    if entrant.firm:
        add_usage(state.queues, state.firm, entrant.project, sign * entrant.milli, firm=True)


def _leave_lines(state: State, job_id: str, entrant: Entrant) -> None:
    state.fresh.pop(job_id, None)
    state.never.pop(job_id, None)
    group = state.groups.get(entrant.group)
    if group is not None:
        group.waiting.pop(job_id, None)
    waiting = state.firm_waiting.get(entrant.project)
    if waiting is not None:
        waiting.pop(job_id, None)
        if not waiting:
            del state.firm_waiting[entrant.project]


_ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    ServiceLed: _led,
    QueueApplyRequested: _applied,
    QueueConfigured: _configured,
    QueueRefused: _refused,
    NodeJoined: _joined,
    JobAdmitted: _admitted,
    JobEligible: _eligible,
    JobHeld: _held,
    JobPausing: _wanted,
    JobPaused: _paused,
    JobResuming: _wanted,
    JobFinished: _finished,
    SharesDivided: _divided,
}

LISTENS_TO = tuple(_ON)
