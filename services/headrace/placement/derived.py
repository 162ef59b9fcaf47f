"""What is derived from placement's state and kept beside it, so that a turn costs what changed.

Rule: everything here can be rebuilt from the state (`index_of` does so after a snapshot), and no
decision may differ because of what is or is not remembered here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush

import msgspec

from headrace.events.jobs import Gang
from headrace.placement.state import Job, Run, State
from headrace.scheduling.cluster import Scratch
from headrace.scheduling.explain import asked_milli
from headrace.scheduling.fitting import Fitting

Kind = tuple[str, bool, bytes]  # project, preemptible, shape
Place = tuple[int, int, str]  # minus priority, position of admission, job: who comes first

_SHAPE = msgspec.json.Encoder()


class Line:
    """Jobs of one project that ask for the same: if the first does not fit, none does."""

    __slots__ = ("gang", "milli", "places", "preemptible", "project")

    def __init__(self, project: str, gang: Gang, *, preemptible: bool) -> None:
        self.project, self.gang, self.preemptible = project, gang, preemptible
        self.milli = asked_milli(gang)
        self.places: list[Place] = []


class Index:
    """The waiting lines, who runs, who is stopping, and when time alone matters."""

    def __init__(self) -> None:
        self.lines: dict[Kind, Line] = {}
        self.waiting: dict[str, tuple[Kind, Place]] = {}
        self.wanted_milli: dict[str, int] = {}  # by project, of waiting jobs
        self.running: dict[str, tuple[str, ...]] = {}  # job: its nodes
        self.on_node: dict[str, dict[str, None]] = {}  # node: jobs with a worker there
        self.stopping: dict[str, None] = {}
        self.gaining: dict[str, None] = {}
        self.timers: list[tuple[int, str, int]] = []  # deadline, job, attempt
        self.freed = 0  # counts whatever may let a line fit that did not
        self.idle = False  # the last decision on this very state was to do nothing
        self.total_milli = -1  # of all usable devices; below 0: to be summed again
        self.changed_nodes: dict[str, None] = {}  # since `fitting` was last based on the state
        self.fitting: Fitting | None = None
        self.no_fit: dict[Kind, int] = {}  # lines that did not fit when `freed` was this

    def sync(self, job_id: str, job: Job) -> None:
        """Bring everything kept about this live job up to date."""
        if job.waiting:
            if job_id not in self.waiting:
                self._enter(job_id, job)
        elif job_id in self.waiting:
            self._leave(job_id)
        if (job.run is not None) != (job_id in self.running):
            self._run(job_id, job.run)
        _member(self.stopping, job_id, present=job.run is not None and bool(job.run.evicted))
        if _member(self.gaining, job_id, present=job.gaining and job.waiting):
            self.freed += 1

    def drop(self, job_id: str) -> None:
        """The job has ended."""
        if job_id in self.waiting:
            self._leave(job_id)
        if job_id in self.running:
            self._run(job_id, None)
        self.stopping.pop(job_id, None)
        if job_id in self.gaining:
            del self.gaining[job_id]
            self.freed += 1

    def watch(self, job_id: str, job: Job) -> None:
        """Remember when the attempt that has just begun must end."""
        if job.max_duration_us and job.run is not None and job.run.begun_us:
            deadline_us = job.run.begun_us + job.max_duration_us
            heappush(self.timers, (deadline_us, job_id, job.run.attempt))

    def next_deadline_us(self, state: State) -> int | None:
        """When the next attempt reaches its maximum duration."""
        while self.timers:
            deadline_us, job_id, attempt = self.timers[0]
            if _ticking(state, job_id, attempt):
                return deadline_us
            heappop(self.timers)
        return None

    def overdue(self, state: State, now_us: int) -> list[str]:
        """The jobs whose attempt has reached its maximum duration, by id."""
        first = self.next_deadline_us(state)
        if first is None or first > now_us:
            return []
        late = {
            job_id
            for deadline_us, job_id, attempt in self.timers
            if deadline_us <= now_us and _ticking(state, job_id, attempt)
        }
        return sorted(late)

    def _run(self, job_id: str, run: Run | None) -> None:
        """The job has got an attempt, or has lost it."""
        if run is not None:
            nodes = tuple(dict.fromkeys(worker.node for worker in run.workers))
            self.running[job_id] = nodes
            for node in nodes:
                self.on_node.setdefault(node, {})[job_id] = None
            return
        for node in self.running.pop(job_id):
            del self.on_node[node][job_id]

    def _enter(self, job_id: str, job: Job) -> None:
        kind = (job.project, job.preemptible, _SHAPE.encode(job.gang))
        line = self.lines.get(kind)
        if line is None:
            line = Line(job.project, job.gang, preemptible=job.preemptible)
            self.lines[kind] = line
        place = (-job.priority, job.admitted_at, job_id)
        if not line.places or place > line.places[-1]:
            line.places.append(place)
        else:
            insort(line.places, place)
        self.waiting[job_id] = (kind, place)
        self.wanted_milli[job.project] = self.wanted_milli.get(job.project, 0) + line.milli

    def _leave(self, job_id: str) -> None:
        kind, place = self.waiting.pop(job_id)
        line = self.lines[kind]
        del line.places[bisect_left(line.places, place)]
        self.wanted_milli[line.project] -= line.milli
        if not line.places:
            del self.lines[kind]
            self.no_fit.pop(kind, None)


def index_of(state: State) -> Index:
    """What is kept beside this state; built anew when there is nothing yet."""
    index: Index | None = state.__dict__.get("index")
    return build(state) if index is None else index


def build(state: State) -> Index:
    """Everything derived, from the state alone."""
    index = Index()
    for job_id, job in state.jobs.items():
        index.sync(job_id, job)
        index.watch(job_id, job)
    state.__dict__["index"] = index
    return index


def total_milli(state: State) -> int:
    """Thousandths of usable GPUs of the whole fleet."""
    index = index_of(state)
    if index.total_milli < 0:
        index.total_milli = sum(node.capacity_milli for node in state.nodes.values())
    return index.total_milli


def fitting_on(state: State, policy: str) -> Fitting:
    """A fresh trial on the state, with what is still true of earlier rankings."""
    index = index_of(state)
    if index.fitting is None:
        index.fitting = Fitting(Scratch(state.nodes), policy)
    else:
        index.fitting.rebase(state.nodes, index.changed_nodes)
    index.changed_nodes.clear()
    return index.fitting


def _ticking(state: State, job_id: str, attempt: int) -> bool:
    job = state.jobs.get(job_id)
    run = job.run if job is not None else None
    return run is not None and run.attempt == attempt and not run.evicted and not run.gone


def _member(members: dict[str, None], job_id: str, *, present: bool) -> bool:
    """Put the job in or out; whether it went out."""
    if present:
        members[job_id] = None
        return False
    if job_id in members:
        del members[job_id]
        return True
    return False
