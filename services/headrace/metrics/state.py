"""What metrics knows: how many jobs are where, what the fleet has, what every project used.

Rule: folded from the log only; totals grow with projects and buckets, never with finished jobs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.events import Entry
from headrace.events.attempts import AttemptExited
from headrace.events.gangs import GangGrown, GangPlaced, GangReleased, WorkersReleased
from headrace.events.jobs import (
    JobAdmitted,
    JobCancelling,
    JobEligible,
    JobFinished,
    JobHeld,
    JobStarted,
)
from headrace.events.nodes import NodeChanged, NodeHeard, NodeJoined, NodeSilent
from headrace.events.pauses import GangPaused, GangResumed, JobPaused
from headrace.events.platform import UsageAccounted
from headrace.events.sweeps import SweepBest
from headrace.events.workspaces import WorkspaceSeen, stage_of
from headrace.metrics import sweep_rules
from headrace.metrics.sweep_rules import Sweeps

WAIT_BUCKETS_MS = (10, 50, 100, 500, 1_000, 5_000, 30_000, 60_000, 300_000, 3_600_000)
PROJECTS_MAX = 10_000  # as many as the tree may have
GONE = ("delete", "forget")  # changes after which a node offers nothing


class Seen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A live job and the state it is in: waiting, held, starting, running, cancelling. `nodes` are
    those of its `attempt` that is placed, by rank.
    """

    project: str
    state: str = "waiting"
    attempt: int = 0
    nodes: dict[int, str] = {}


class Waits(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A histogram of waits: `counts[i]` waits within bucket `i`, the last one beyond all."""

    counts: list[int] = []
    total_us: int = 0


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """A released gang, or a part of one, that is not accounted for yet."""

    job: str
    project: str
    attempt: int
    milli: int
    held_us: int
    traceparent: str


class Workspace(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A workspace that ends when it is not used for `idle_us`: its `attempt` that runs (0: none),
    with these devices, each with its node before it, and whether it was warned of (1) or its time is up (2).
    """

    project: str
    idle_us: int
    attempt: int = 0
    devices: tuple[tuple[str, str], ...] = ()
    stage: int = 0


class Machine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node: what it has, and whether it is heard."""

    milli: int
    silent: bool = False
    devices: dict[str, None] = {}


class State(msgspec.Struct, kw_only=True):
    """All of it. `ended` counts `project/outcome`; `used_milli_us` is exact, per project."""

    jobs: dict[str, Seen] = {}
    counts: dict[str, dict[str, int]] = {}  # project: state: jobs
    ended: dict[str, dict[str, int]] = {}  # project: outcome: jobs
    waits: dict[str, Waits] = {}
    nodes: dict[str, Machine] = {}
    allocated_milli: dict[str, int] = {}  # by project: what its jobs hold now
    accounts_due: dict[int, Used] = {}  # by position of its release
    used_milli_us: dict[str, int] = {}
    attempts: dict[str, int] = {}
    workspaces: dict[str, Workspace] = {}
    sweeps: Sweeps = msgspec.field(default_factory=Sweeps)


def evolve(state: State, entry: Entry) -> None:
    """Fold one entry."""
    _ON[type(entry.event)](state, entry, entry.event)


def _admitted(state: State, entry: Entry, event: JobAdmitted) -> None:
    sweep_rules.admitted(state.sweeps, entry, event)
    if not event.tasks:
        state.jobs[event.job] = Seen(project=event.project)
        _count(state, event.project, "waiting", 1)
    if event.idle_us:
        state.workspaces[event.job] = Workspace(project=event.project, idle_us=event.idle_us)


def _placed(state: State, _entry: Entry, event: GangPlaced) -> None:
    _allocate(state, event.project, event.milli)
    _runs(state, event)
    _move(state, event.job, "starting")


def _grown(state: State, _entry: Entry, event: GangGrown) -> None:
    _allocate(state, event.project, event.milli)
    seen = state.jobs.get(event.job)
    if seen is not None:
        seen.nodes.update((worker.rank, worker.node) for worker in event.workers)


def _resumed(state: State, _entry: Entry, event: GangResumed) -> None:
    _allocate(state, event.project, event.milli)
    _runs(state, event)
    _move(state, event.job, "running")


def _released(
    state: State, entry: Entry, event: GangReleased | WorkersReleased | GangPaused
) -> None:
    _allocate(state, event.project, -event.milli)
    state.accounts_due[entry.position] = Used(
        job=event.job,
        project=event.project,
        attempt=event.attempt,
        milli=event.milli,
        held_us=event.held_us,
        traceparent=entry.header.traceparent,
    )
    seen = state.jobs.get(event.job)
    if seen is not None and isinstance(event, WorkersReleased):
        seen.nodes = {rank: node for rank, node in seen.nodes.items() if rank not in event.ranks}
    elif seen is not None and isinstance(event, GangReleased):
        seen.nodes = {}
    workspace = state.workspaces.get(event.job)
    if workspace is not None:
        workspace.attempt, workspace.devices = 0, ()
    if isinstance(event, GangPaused) or (isinstance(event, GangReleased) and event.again):
        _move(state, event.job, "waiting")


def _accounted(state: State, entry: Entry, event: UsageAccounted) -> None:
    state.accounts_due.pop(entry.header.causation, None)
    before = state.used_milli_us.get(event.project, 0)
    state.used_milli_us[event.project] = before + event.milli * event.held_us
    state.attempts[event.project] = state.attempts.get(event.project, 0) + 1


def _finished(state: State, entry: Entry, event: JobFinished) -> None:
    sweep_rules.finished(state.sweeps, entry, event)
    state.workspaces.pop(event.job, None)
    seen = state.jobs.pop(event.job, None)
    if seen is None:
        return
    _count(state, seen.project, seen.state, -1)
    outcomes = state.ended.setdefault(seen.project, {})
    outcomes[event.outcome] = outcomes.get(event.outcome, 0) + 1
    if event.attempt:
        waits = state.waits.setdefault(seen.project, Waits())
        if not waits.counts:
            waits.counts = [0] * (len(WAIT_BUCKETS_MS) + 1)
        waits.counts[bisect_left(WAIT_BUCKETS_MS, event.waited_us // 1000)] += 1
        waits.total_us += event.waited_us


def _joined(state: State, _entry: Entry, event: NodeJoined) -> None:
    milli = 1000 * sum(1 for device in event.devices if device.healthy)
    devices = {device.device: None for device in event.devices}
    state.nodes[event.node] = Machine(milli=milli, devices=devices)


def _heard(state: State, _entry: Entry, event: NodeSilent | NodeHeard) -> None:
    machine = state.nodes.get(event.node)
    if machine is not None:
        machine.silent = isinstance(event, NodeSilent)


def _changed(state: State, _entry: Entry, event: NodeChanged) -> None:
    if event.change in GONE:
        state.nodes.pop(event.node, None)


def _allocate(state: State, project: str, milli: int) -> None:
    state.allocated_milli[project] = state.allocated_milli.get(project, 0) + milli


def _runs(state: State, event: GangPlaced | GangResumed) -> None:
    seen = state.jobs.get(event.job)
    if seen is not None:
        seen.attempt = event.attempt
        seen.nodes = {worker.rank: worker.node for worker in event.workers}
    workspace = state.workspaces.get(event.job)
    if workspace is not None:
        workspace.attempt, workspace.stage = event.attempt, 0
        workspace.devices = tuple(
            (worker.node, share.device) for worker in event.workers for share in worker.devices
        )


def _seen(state: State, _entry: Entry, event: WorkspaceSeen) -> None:
    workspace = state.workspaces.get(event.job)
    if workspace is not None and workspace.attempt == event.attempt:
        workspace.stage = stage_of(event.unused_us, workspace.idle_us)


def _in_sweeps(follow: Callable[[Sweeps, Entry, Any], None]) -> Callable[..., None]:
    return lambda state, entry, event: follow(state.sweeps, entry, event)


def _moves(name: str) -> Callable[[State, Entry, Any], None]:
    def move(state: State, _entry: Entry, event: Any) -> None:
        _move(state, event.job, name)

    return move


def _move(state: State, job: str, name: str) -> None:
    seen = state.jobs.get(job)
    if seen is not None:
        _count(state, seen.project, seen.state, -1)
        _count(state, seen.project, name, 1)
        seen.state = name


def _count(state: State, project: str, name: str, change: int) -> None:
    counts = state.counts.setdefault(project, {})
    counts[name] = counts.get(name, 0) + change


_ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    JobAdmitted: _admitted,
    JobEligible: _moves("waiting"),
    JobHeld: _moves("held"),
    JobStarted: _moves("running"),
    JobCancelling: _moves("cancelling"),
    JobPaused: _moves("paused"),
    JobFinished: _finished,
    GangPlaced: _placed,
    GangGrown: _grown,
    GangReleased: _released,
    WorkersReleased: _released,
    GangPaused: _released,
    GangResumed: _resumed,
    NodeJoined: _joined,
    NodeSilent: _heard,
    NodeHeard: _heard,
    NodeChanged: _changed,
    UsageAccounted: _accounted,
    WorkspaceSeen: _seen,
    AttemptExited: _in_sweeps(sweep_rules.exited),
    SweepBest: _in_sweeps(sweep_rules.told),
}

LISTENS_TO = tuple(_ON)
