"""Who is placed where, and who is stopped for whom.

Rule: gangs for which others are being stopped come first and keep what they wait for; then every
line in the order of fair shares; then reclaim, for queues within their quota only.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.decider import Draft
from headrace.events.gangs import Act, GangPlaced
from headrace.events.jobs import Accelerator
from headrace.placement.derived import Index, Kind, Line, fitting_on, index_of, total_milli
from headrace.placement.life_rules import evict
from headrace.placement.state import Job, Run, State
from headrace.scheduling.cluster import DEVICE_MILLI, Booking
from headrace.scheduling.division import divide_tree
from headrace.scheduling.fitting import Fitting, matching, milli_of
from headrace.scheduling.tree import Tree
from headrace.scheduling.victims import Candidate, Gainer, Reclaim, may_gain, search

POLICY = "binpack"
PLACED_MAX = 128  # gangs in one decision: an append holds a bounded number of events
SEARCHES_MAX = 8  # victim searches in one decision; a turn has its limit


class Room:
    """One turn's trial of the fleet: what is free now, what will be, and who got it."""

    def __init__(self, state: State, leaving: frozenset[str]) -> None:
        self.state = state
        self.leaving = leaving  # jobs that this turn stops for another reason
        self.index: Index = index_of(state)
        self.tree = Tree(state.queues, state.usage, total_milli(state))
        self.now = fitting_on(state, POLICY)
        self.drafts: list[Draft] = []
        self.passed: set[str] = set()  # jobs placed or holding a place in this turn
        self.evicted: set[str] = set()
        self._later: Fitting | None = None
        self._ports: dict[str, int] = {}

    @property
    def later(self) -> Fitting:
        """The fleet once everyone who is stopping has gone."""
        if self._later is None:
            scratch = self.now.scratch.fork()
            for job_id in self.index.stopping:
                run = self.state.jobs[job_id].run
                if run is not None:
                    scratch.give(run.booking)
            self._later = Fitting(scratch, POLICY)
        return self._later

    def place(self, job_id: str, job: Job, rule: str) -> bool:
        """Place the job now if it fits and its queue may have it."""
        booking = self.now.fit(job.gang)
        if booking is None or self._gated(job, booking.milli):
            return False
        port = self._port(booking)
        if port is None:
            return False
        self._take(job_id, job, booking)
        if self._later is not None:
            self._later.take(booking)
        self.drafts.append(_placed(job_id, job, booking, port, self._act(job, booking, rule)))
        return True

    def hold(self, job_id: str, job: Job) -> bool:
        """Keep the place that the job gets once those who are stopping have gone."""
        booking = self.later.fit(job.gang)
        if booking is None or self._gated(job, booking.milli):
            return False
        self.later.take(booking)
        self._take(job_id, job, booking)
        return True

    def stop(self, job_id: str, job: Job, found: Reclaim) -> None:
        """Stop the victims for this job, which then holds their place."""
        for victim in found.victims:
            loser = self.state.jobs[victim.job]
            assert loser.run is not None  # candidates run
            self.later.scratch.give(loser.run.booking)
            numbers = {
                "held_milli": victim.held_milli,
                "quota_milli": victim.quota_milli,
                "gainer_used_milli": self.tree.used(job.project).milli,
                "gainer_quota_milli": self.tree.quota_milli(job.project),
                "gainer_milli": found.booking.milli,
            }
            names = {"queue": victim.level, "gainer_project": job.project}
            act = Act(rule="reclaim-over-quota", numbers=numbers, names=names)
            event = evict(victim.job, loser, loser.run, "reclaimed", act, gainer=job_id)
            self.drafts.append(Draft(event=event, traceparent=loser.traceparent))
            self.evicted.add(victim.job)
        self.hold(job_id, job)

    def _gated(self, job: Job, milli: int) -> bool:
        return self.tree.gate(job.project, milli, firm=not job.preemptible) is not None

    def _take(self, job_id: str, job: Job, booking: Booking) -> None:
        self.now.take(booking)
        self.tree.add(job.project, booking.milli, firm=not job.preemptible)
        self.passed.add(job_id)

    def _act(self, job: Job, booking: Booking, rule: str) -> Act:
        numbers = {
            "gpu_milli": booking.milli,
            "used_milli": self.tree.used(job.project).milli,
            "quota_milli": self.tree.quota_milli(job.project),
            "nodes": len(booking.workers),
        }
        return Act(rule=rule, numbers=numbers, names={"policy": POLICY})

    def _port(self, booking: Booking) -> int | None:
        """A port of rank 0's node that no live gang at its address has, in turn."""
        first = booking.workers[0]
        said, address = self.state.machines[first.node].said, first.address
        taken = self.state.ports.get(address, {})
        count = said.port_last - said.port_first + 1
        start = self._ports.get(address, self.state.ports_next.get(address, said.port_first))
        for step in range(min(count, len(taken) + PLACED_MAX + 1)):
            port = said.port_first + (start - said.port_first + step) % count
            if port not in taken:
                self._ports[address] = port + 1
                return port
        return None


def decide_room(state: State, leaving: frozenset[str] = frozenset()) -> list[Draft]:
    """Placements and evictions on this state. `leaving` are stopped in the same decision anyway."""
    index = index_of(state)
    if not index.waiting:
        return []
    room = Room(state, leaving)
    for job_id in sorted(index.gaining, key=lambda j: index.waiting[j][1]):
        job = state.jobs[job_id]
        if not room.place(job_id, job, "reclaimed-for"):
            room.hold(job_id, job)
    unplaced = _allocate(room)
    _reclaim(room, unplaced)
    return room.drafts


def _allocate(room: Room) -> list[tuple[Kind, Line]]:
    """Place the heads of the lines, fair share first; the lines that did not fit."""
    index, unplaced = room.index, []
    cursors: dict[Kind, Iterator[str]] = {}
    heads: dict[Kind, str] = {}
    for kind, line in index.lines.items():
        if line.project not in room.state.queues:
            continue
        if index.no_fit.get(kind) == index.freed and not index.gaining:
            unplaced.append((kind, line))
            continue
        cursors[kind] = _waiting(room, line)
        _advance(cursors, heads, kind)
    shares = _shares(room) if len({kind[0] for kind in heads}) > 1 else {}
    while heads and len(room.drafts) < PLACED_MAX:
        kind = min(heads, key=lambda k: _rank(room, k, heads[k], shares))
        job_id = heads[kind]
        if room.place(job_id, room.state.jobs[job_id], "fits"):
            _advance(cursors, heads, kind)
            continue
        del heads[kind]
        unplaced.append((kind, index.lines[kind]))
        if not room.passed:  # it did not fit the state itself, rather than what this turn leaves
            index.no_fit[kind] = index.freed
    return unplaced


def _reclaim(room: Room, unplaced: list[tuple[Kind, Line]]) -> None:
    """For lines whose queue is within its quota: hold a place, or stop others for the head."""
    searches = 0
    candidates: list[Candidate] | None = None
    for _, line in sorted(unplaced, key=lambda pair: pair[1].places[0]):
        firm = not line.preemptible
        milli = _needed_milli(room, line)
        if not milli or not may_gain(room.tree, line.project, milli, firm=firm):
            continue
        job_id = next(_waiting(room, line), None)
        if job_id is None:
            continue
        job = room.state.jobs[job_id]
        if (room.index.stopping or room.evicted) and room.hold(job_id, job):
            continue
        if searches >= SEARCHES_MAX:
            break
        searches += 1
        if candidates is None:
            candidates = _candidates(room)
        able = [c for c in candidates if c.job not in room.evicted]
        scratch = room.later.scratch
        gainer = Gainer(gang=line.gang, queue=line.project, milli=milli)
        found = search(scratch, room.tree, able, gainer, POLICY)
        if found is not None:
            room.stop(job_id, job, found)


def _candidates(room: Room) -> list[Candidate]:
    found = []
    for job_id in room.index.running:
        job = room.state.jobs[job_id]
        run: Run | None = job.run
        if run is None or run.evicted or run.gone or not job.preemptible:
            continue
        if job_id in room.leaving or job_id in room.state.due:
            continue
        found.append(
            Candidate(
                job=job_id,
                queue=job.project,
                priority=job.priority,
                placed_at=run.position,
                booking=run.booking,
            )
        )
    return found


def _needed_milli(room: Room, line: Line) -> int:
    """What the gang takes at most: a share by memory is largest on the smallest GPU that has it."""
    if not line.gang.gpu_memory_bytes:
        return line.milli
    kinds = line.gang.accelerators or (Accelerator(milli=0),)
    shares = [
        milli_of(device, line.gang, kind)
        for node in room.state.nodes.values()
        for kind in kinds
        for device in matching(node, kind)
    ]
    return line.gang.nodes * max((m for m in shares if m <= DEVICE_MILLI), default=0)


def _waiting(room: Room, line: Line) -> Iterator[str]:
    return (job_id for _, _, job_id in line.places if job_id not in room.passed)


def _advance(cursors: dict[Kind, Iterator[str]], heads: dict[Kind, str], kind: Kind) -> None:
    job_id = next(cursors[kind], None)
    if job_id is None:
        heads.pop(kind, None)
    else:
        heads[kind] = job_id


def _rank(
    room: Room, kind: Kind, job_id: str, shares: dict[str, int]
) -> tuple[tuple[int | str, ...], tuple[int, int, str]]:
    line = room.index.lines[kind]
    standing = room.tree.standing(kind[0], line.milli, shares) if shares else ()
    return standing, room.index.waiting[job_id][1]


def _shares(room: Room) -> dict[str, int]:
    """Fair shares on this very state: what everyone holds and wants."""
    queues = room.state.queues
    requests = dict(room.index.wanted_milli)
    parents = {queue.parent for queue in queues.values()}
    for name in queues:
        if name not in parents:
            requests[name] = requests.get(name, 0) + room.tree.used(name).milli
    return divide_tree(queues, requests, room.tree.total_milli)


def _placed(job_id: str, job: Job, booking: Booking, port: int, act: Act) -> Draft:
    event = GangPlaced(
        job=job_id,
        project=job.project,
        attempt=job.attempt + 1,
        workers=booking.workers,
        requested_at=job.requested_at,
        port=port,
        milli=booking.milli,
        cpu_milli=booking.cpu_milli,
        memory_bytes=booking.memory_bytes,
        per_gpu_processes=job.gang.per_gpu_processes,
        act=act,
    )
    return Draft(event=event, causation=job.admitted_at, traceparent=job.traceparent)
