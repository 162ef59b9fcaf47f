"""Who is placed where, and who is stopped for whom.

Rule: gangs for which others are being stopped come first; then those that have waited long get or
keep their reservations; then a turn of the scheduling core. What
it places at once and whom it evicts is decided; what it only promises is promised again in the next
turn. What is still held counts against every limit until it is released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from headrace.decider import Draft
from headrace.events import Decision
from headrace.events.gangs import Act, GangPlaced, SearchSuspended, Worker
from headrace.events.pauses import GangResumed
from headrace.placement.derived import index_of, total_milli, world_of
from headrace.placement.life_rules import evict
from headrace.placement.modelling import has_own, migrates, options_for, shares_of
from headrace.placement.option_rules import names_of, numbers_of
from headrace.placement.pause_rules import CHECKPOINT, leave
from headrace.placement.reservation_rules import recorded, reserved_in
from headrace.placement.state import Job, Run, State, summed
from headrace.scheduling.actions import Suspended, allocate, take_turn
from headrace.scheduling.amounts import GPU
from headrace.scheduling.cluster import DEVICE_MILLI
from headrace.scheduling.gangs import BOUND, EVICTED, RUNNING, Shape, Task
from headrace.scheduling.legality import leveled
from headrace.scheduling.placing import choices, place_gang
from headrace.scheduling.reservations import renewed
from headrace.scheduling.tree import Tree
from headrace.scheduling.world import Gain, World

PLACED_MAX = 128  # gangs in one decision: an append holds a bounded number of events

STEPS_MAX = 200  # evictions tried in one decision; a search that was begun is ended
ACTIONS = ("allocate", "consolidate", "reclaim", "preempt", "bind")

REASONS = {"reclaim": "reclaimed", "preempt": "preempted"}  # of whoever has no place then


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn came to: the gangs that are stopped and for whom (`moved`: each of these has a
    place elsewhere then), and those that get places.
    """

    stopped: dict[str, Gain]
    moved: frozenset[str]
    placed: dict[str, Seated]


class Seated(msgspec.Struct, frozen=True, kw_only=True):
    """Where the workers of a gang get their places, and what each of them asked for."""

    workers: tuple[Worker, ...]
    shape: Shape


def decide_room(state: State, now_us: int, leaving: Collection[str] = ()) -> list[Draft]:
    """Placements and evictions on this state. `leaving` are stopped in the same decision anyway."""
    index = index_of(state)
    if not index.waiting:
        return []
    world = world_of(state)
    world.begin(now_us)
    mark = world.mark()
    gaining = (job_id for job_id in index.gaining if job_id in world.gangs)
    for job_id in sorted(gaining, key=lambda j: (-state.jobs[j].priority, j)):
        gang = world.gangs[job_id]
        any(place_gang(world, gang, promised=False) for _ in choices(world, gang))
    reserved = reserved_in(state)
    kept = renewed(world, reserved)
    suspended = _turn(state, world)
    room = _read(state, world, mark)
    world.back_to(mark)
    spared = {*leaving, *state.due}  # their lives are decided elsewhere in this turn
    stopped = {j: gain for j, gain in room.stopped.items() if j not in spared}
    drafts = [_evicted(state, world, (j, j in room.moved), gain) for j, gain in stopped.items()]
    drafts += _Placements(state, world).drafts(room.placed)
    drafts += recorded(state, reserved, kept, {*room.placed, *state.due})
    return drafts + _search(state, suspended)


def _turn(state: State, world: World) -> Suspended | None:
    searching = state.searching
    if searching.over:
        allocate(world, PLACED_MAX)
        return None
    resume = Suspended(action=searching.action, gang=searching.job) if searching.job else None
    return take_turn(world, ACTIONS, placed_max=PLACED_MAX, steps_max=STEPS_MAX, resume=resume)


def _search(state: State, suspended: Suspended | None) -> list[Draft]:
    """Where the search goes on, if that is elsewhere than before."""
    action, job = (suspended.action, suspended.gang) if suspended is not None else ("", "")
    if (action, job) == (state.searching.action, state.searching.job):
        return []
    return [Draft(event=SearchSuspended(action=action, job=job))]


def _read(state: State, world: World, mark: int) -> Room:
    stopped: dict[str, Gain] = {}
    placed: dict[str, Seated] = {}
    moved: set[str] = set()
    for name in dict.fromkeys(task.gang for task in world.changed(mark)):
        gang = world.gangs[name]
        tasks = sorted(gang.all_tasks(), key=lambda task: task.rank)
        if not state.jobs[name].waiting:
            if any(task.place is not None and task.state != RUNNING for task in tasks):
                stopped[name] = world.gains[name]
                if not gang.any_in((EVICTED,)):
                    moved.add(name)
        elif all(task.state == BOUND for task in tasks):
            workers = tuple(_worker(state, task) for task in tasks)
            placed[name] = Seated(workers=workers, shape=tasks[0].shape)
    return Room(stopped=stopped, moved=frozenset(moved), placed=placed)


def _worker(state: State, task: Task) -> Worker:
    place = task.place
    assert place is not None  # it is bound
    node = state.nodes[place.node]
    return Worker(
        rank=task.rank, node=node.node, address=node.address, devices=shares_of(place, node)
    )


def _evicted(state: State, world: World, stopped: tuple[str, bool], gain: Gain) -> Draft:
    job_id, moved = stopped
    job, gang, gainer = state.jobs[job_id], world.gangs[job_id], world.gangs[gain.gang]
    assert job.run is not None  # what is stopped runs
    mine, theirs = leveled(world.accounts.standings(), gainer.queue, gang.queue)
    numbers = {"priority": gang.priority, "gainer_priority": gainer.priority}
    for side, queue in (("", theirs), ("gainer_", mine)):
        account = world.accounts.by_name[queue]
        numbers[f"{side}held_milli"] = account.held[GPU]
        numbers[f"{side}quota_milli"] = account.spec.quota[GPU]
        numbers[f"{side}share_milli"] = account.share[GPU]
    names = {"queue": theirs, "gainer_queue": mine, "gainer_project": gainer.queue}
    act = Act(rule=gain.rule, numbers=numbers, names=names)
    event: Decision
    if moved:  # what stays in its node's memory would not leave the node
        event = evict(job_id, job, job.run, "moved", act, gainer=gain.gang)
    else:
        event = leave(state, job_id, job, REASONS[gain.rule], act, gainer=gain.gang)
    return Draft(event=event, traceparent=job.traceparent)


class _Placements:
    """The placements of one turn, one after the other: each counts for the next."""

    def __init__(self, state: State, world: World) -> None:
        self._state = state
        self._world = world
        self._tree = Tree(state.queues, state.usage, total_milli(state))
        self._ports: dict[str, int] = {}
        self._taken: Counter[str] = Counter()  # milli of each device, in this turn

    def drafts(self, placed: dict[str, Seated]) -> list[Draft]:
        """A decision for each that no limit forbids, counting all that is held."""
        drafts = (self._placed(job_id, seated) for job_id, seated in placed.items())
        return [draft for draft in drafts if draft is not None]

    def _placed(self, job_id: str, seated: Seated) -> Draft | None:
        job, workers = self._state.jobs[job_id], seated.workers
        milli = sum(share.milli for worker in workers for share in worker.devices)
        firm = not job.preemptible
        if self._tree.gate(job.project, milli, firm=firm) is not None:
            return None
        if job.run is not None:
            return self._resumed(job_id, job, job.run, seated)
        if not self._take(workers):
            return None
        port = self._port(workers[0])
        if port is None:
            return None
        self._tree.add(job.project, milli, firm=firm)
        event = GangPlaced(
            job=job_id,
            project=job.project,
            attempt=job.attempt + 1,
            workers=workers,
            requested_at=job.requested_at,
            port=port,
            milli=milli,
            cpu_milli=job.gang.cpu_milli,
            memory_bytes=job.gang.memory_bytes,
            per_gpu_processes=job.gang.per_gpu_processes,
            act=self._act(job_id, milli, seated),
        )
        return Draft(event=event, causation=job.admitted_at, traceparent=job.traceparent)

    def _resumed(self, job_id: str, job: Job, run: Run, seated: Seated) -> Draft | None:
        """Back to its own devices where these are free, else to those that were found."""
        workers = seated.workers
        if all(has_own(self._state, worker) for worker in run.workers):
            workers = run.workers
        elif not all(migrates(self._state, worker) for worker in run.workers):
            return None
        if not self._take(workers):
            return None
        self._tree.add(job.project, run.milli, firm=not job.preemptible)
        act = Act(rule="resumes", numbers={"rested_us": run.rested_us}, names={"way": CHECKPOINT})
        event = GangResumed(
            job=job_id,
            project=job.project,
            attempt=run.attempt,
            workers=workers,
            milli=run.milli,
            act=act,
        )
        return Draft(event=event, causation=run.position, traceparent=job.traceparent)

    def _take(self, workers: Sequence[Worker]) -> bool:
        """Whether these devices are free in this turn; who goes back to its own may take another's,
        who is then served in the next.
        """
        nodes = {worker.node: self._state.nodes[worker.node] for worker in workers}
        used = {d.device: d.used_milli for node in nodes.values() for d in node.devices}
        wanted = {share.device: share.milli for share in summed(workers)}
        for device, milli in wanted.items():
            if self._taken[device] + used[device] + milli > DEVICE_MILLI:
                return False
        self._taken.update(wanted)
        return True

    def _act(self, job_id: str, milli: int, seated: Seated) -> Act:
        job = self._state.jobs[job_id]
        numbers = {
            "gpu_milli": milli,
            "used_milli": self._tree.used(job.project).milli,
            "quota_milli": self._tree.quota_milli(job.project),
            "nodes": len(seated.workers),
        }
        pool = self._world.machines[seated.workers[0].node].spec.pool
        settings = self._world.settings
        names = {"policy": settings.policies.get(pool, settings.policy)}
        if pool:
            names["pool"] = pool
        if self._world.gangs[job_id].options:
            options = options_for(self._state, job_id, job)
            numbers |= numbers_of(options[seated.shape], list(options).index(seated.shape))
            names |= names_of(options[seated.shape])
        return Act(rule="made-room" if job.gaining else "fits", numbers=numbers, names=names)

    def _port(self, first: Worker) -> int | None:
        """A port of rank 0's node that no live gang at its address has, in turn."""
        said, address = self._state.machines[first.node].said, first.address
        taken = self._state.ports.get(address, {})
        count = said.port_last - said.port_first + 1
        start = self._ports.get(address, self._state.ports_next.get(address, said.port_first))
        for step in range(min(count, len(taken) + PLACED_MAX + 1)):
            port = said.port_first + (start - said.port_first + step) % count
            if port not in taken:
                self._ports[address] = port + 1
                return port
        return None
