"""Who is placed where, and who is stopped for whom.

Rule: reservations come first, for nobody may take what they need; then gangs for which others are
being stopped; then those that have waited long get reservations of their own, also if those who are
stopped for them should have gone by now; then a turn of the scheduling core. What it places at once
and whom it evicts is decided; what it only promises is promised again in the next turn. What is
still held counts against every limit until it is released. Who loses no more than it can do without
is shrunk, else stopped, and if it has its minimum elsewhere then, that is promised to it; nobody is
stopped so that somebody else may grow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from headrace.decider import Draft
from headrace.events import Decision
from headrace.events.gangs import Act, GangGrown, GangPlaced, SearchSuspended, Worker
from headrace.placement.account_rules import Numbers
from headrace.placement.derived import index_of, total_milli
from headrace.placement.following import world_at
from headrace.placement.life_rules import shrink
from headrace.placement.offers import options_for
from headrace.placement.option_rules import Option, family_of, names_of, numbers_of
from headrace.placement.part_gate import PartGate, guaranteed_part
from headrace.placement.pause_rules import ended, leave
from headrace.placement.port_rules import Ports
from headrace.placement.reservation_rules import Kept, promised, recorded, reserved_in
from headrace.placement.resume_rules import Given, back_to, resumed
from headrace.placement.runs import MOVED, Run
from headrace.placement.state import Job, State
from headrace.placement.turn_results import Loss, Seated, read
from headrace.scheduling.actions import Suspended, allocate, take_turn
from headrace.scheduling.amounts import GPU
from headrace.scheduling.gangs import Shape
from headrace.scheduling.legality import leveled
from headrace.scheduling.placing import choices, place_gang
from headrace.scheduling.reservations import renewed
from headrace.scheduling.tree import Tree
from headrace.scheduling.withdrawal import keep
from headrace.scheduling.world import World

PLACED_MAX = 128  # gangs in one decision: an append holds a bounded number of events
PROMISED_MAX = 24  # reservations, beyond which who is moved gets none: all are checked with all

STEPS_MAX = 100  # evictions tried in one decision; a search that was begun is ended
ACTIONS = ("allocate", "consolidate", "reclaim", "preempt", "bind")

REASONS = {"reclaim": "reclaimed", "preempt": "preempted"}  # of whoever has no place then


def decide_room(state: State, now_us: int, leaving: Collection[str] = ()) -> list[Draft]:
    """Placements and evictions on this state. `leaving` are stopped in the same decision anyway."""
    index = index_of(state)
    if not index.waiting and not index.growing:
        return []
    world = world_at(state, now_us)
    if index.quiet and not state.searching.job:
        return []
    mark = world.mark()
    reserved = reserved_in(state)
    over = keep(world, reserved)
    gaining = [job_id for job_id in index.gaining if job_id in world.gangs]
    gaining.sort(key=lambda j: (-state.jobs[j].priority, j))
    overdue = [job_id for job_id in gaining if state.jobs[job_id].room_by_us < now_us]
    _place(world, [job_id for job_id in gaining if job_id not in overdue])
    kept = renewed(world)
    _place(world, overdue)
    suspended = _turn(state, world, now_us)
    room = read(state, world, mark)
    world.back_to(mark)
    spared = {*leaving, *state.due}  # their lives are decided elsewhere in this turn
    lost = {j: loss for j, loss in room.lost.items() if j not in spared}
    drafts = [_taken(state, world, j, loss) for j, loss in lost.items()]
    moved = [(j, loss.seats) for j, loss in lost.items() if loss.seats]
    left = max(0, PROMISED_MAX - len(reserved))
    drafts += [promised(state, j, seats, now_us) for j, seats in moved[:left]]
    grown = {j: workers for j, workers in room.grown.items() if j not in spared}
    placements = _Placements(state, world)
    placed = placements.drafts({j: s for j, s in room.placed.items() if j not in leaving})
    drafts += placements.assigned
    drafts += placed.values()
    drafts += placements.growth(grown)
    drafts += recorded(state, Kept(reserved, kept, over), {*placed, *state.due})
    drafts += _search(state, suspended)
    is_whole = now_us >= state.searching.rests_until_us and not state.searching.job
    index.quiet = is_whole and not (drafts or room.placed or room.lost or room.grown)
    return drafts


def _place(world: World, names: Iterable[str]) -> None:
    """Give these what they can have at once, or promise it."""
    for gang in (world.gangs[name] for name in names):
        any(place_gang(world, gang, promised=False) for _ in choices(world, gang))


def _turn(state: State, world: World, now_us: int) -> Suspended | None:
    searching = state.searching
    if now_us < searching.rests_until_us:
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


def _taken(state: State, world: World, job_id: str, loss: Loss) -> Draft:
    gain = loss.gain
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
    if gain.rule == "reclaim" and (part := guaranteed_part(world, gainer)) is not None:
        names["part"] = world.accounts.parts.all[part].gpus
        for side, queue in (("", theirs), ("gainer_", mine)):
            stake = world.accounts.by_name[queue].stakes[part]
            numbers[f"{side}part_held_milli"] = stake.held
            numbers[f"{side}part_quota_milli"] = stake.ration.quota
            numbers[f"{side}part_share_milli"] = stake.share
    act = Act(rule=gain.rule, numbers=numbers, names=names)
    reason = MOVED if loss.moved else REASONS[gain.rule]
    event: Decision
    if loss.ranks:
        event = shrink(job_id, job, job.run, (loss.ranks, reason), act, gainer=gain.gang)
    elif loss.moved:  # what stays in its node's memory would not leave the node
        event = ended(job_id, job, job.run, reason, act, gainer=gain.gang)
    else:
        event = leave(state, job_id, job, reason, act, gainer=gain.gang)
    return Draft(event=event, traceparent=job.traceparent)


class _Placements:
    """The placements of one turn, one after the other: each counts for the next."""

    def __init__(self, state: State, world: World) -> None:
        self._state = state
        self._world = world
        self._tree = Tree(state.queues, state.usage, total_milli(state))
        self._parts = PartGate(world)
        self._ports = Ports(state)
        self._given = Given(state)
        self._numbers = Numbers(state)
        self.assigned: list[Draft] = []  # accounts, to users who had none

    def drafts(self, placed: dict[str, Seated]) -> dict[str, Draft]:
        """By job, a decision for each that no limit forbids, counting all that is held."""
        drafts = {job_id: self._placed(job_id, seated) for job_id, seated in placed.items()}
        return {job_id: draft for job_id, draft in drafts.items() if draft is not None}

    def growth(self, grown: dict[str, Seated]) -> Iterator[Draft]:
        """The same for those that run and get more."""
        for job_id, seated in grown.items():
            draft = self._grown(job_id, seated)
            if draft is not None:
                yield draft

    def _placed(self, job_id: str, seated: Seated) -> Draft | None:
        job, workers = self._state.jobs[job_id], seated.workers
        milli, firm_milli = _milli(workers), job.firm_milli(workers)
        if job.run is not None:
            return self._resumed(job_id, job, job.run, seated)
        lacks = not self._numbers.has(job)
        if lacks and self._numbers.lack_in(job.project):
            return None  # others got the last ones in this turn
        if not self._may_have(job, milli, firm_milli):
            return None
        workers = self._ports.given(job, workers)
        if not workers or not self._given.take(workers):
            return None
        if not self._parts.admits(self._world.gangs[job_id], seated.stakes):
            return None
        self._add(job, milli, firm_milli)
        if lacks:
            self.assigned.append(self._numbers.assign(job))
        event = GangPlaced(
            job=job_id,
            project=job.project,
            attempt=job.attempt + 1,
            workers=workers,
            requested_at=job.requested_at,
            port=workers[0].port,
            milli=milli,
            cpu_milli=job.gang.cpu_milli,
            memory_bytes=job.gang.memory_bytes,
            per_gpu_processes=any(g.per_gpu_processes for g in job.gang.by_role().values()),
            act=self._act(job_id, milli, seated),
        )
        return Draft(event=event, causation=job.admitted_at, traceparent=job.traceparent)

    def _grown(self, job_id: str, seated: Seated) -> Draft | None:
        job, workers = self._state.jobs[job_id], seated.workers
        milli = _milli(workers)
        run = job.run
        assert run is not None  # it grows
        more_firm = job.firm_milli((*run.workers, *workers)) - job.firm_milli(run.workers)
        if not self._may_have(job, milli, more_firm):
            return None
        workers = self._ports.given(job, workers)
        if not workers or not self._parts.admits(self._world.gangs[job_id], seated.stakes):
            return None
        if not self._given.take(workers):
            return None
        self._add(job, milli, more_firm)
        act = self._act(job_id, milli, seated)
        numbers = act.numbers | {"nodes": len(run.staying) + len(workers)}
        event = GangGrown(
            job=job_id,
            project=job.project,
            attempt=run.attempt,
            workers=workers,
            milli=milli,
            act=msgspec.structs.replace(act, rule="grows", numbers=numbers),
        )
        return Draft(event=event, causation=run.position, traceparent=job.traceparent)

    def _may_have(self, job: Job, milli: int, firm_milli: int) -> bool:
        """Whether no limit forbids so much more, of which so much cannot be taken back."""
        gates = [self._tree.gate(job.project, milli, firm=False)]
        if firm_milli:
            gates.append(self._tree.gate(job.project, firm_milli, firm=True))
        return not any(gates)

    def _add(self, job: Job, milli: int, firm_milli: int) -> None:
        self._tree.add(job.project, firm_milli, firm=True)
        self._tree.add(job.project, milli - firm_milli, firm=False)

    def _resumed(self, job_id: str, job: Job, run: Run, seated: Seated) -> Draft | None:
        workers = back_to(self._state, run, seated.workers)
        firm_milli = job.firm_milli(workers)
        if not workers or not self._may_have(job, run.milli, firm_milli):
            return None
        if not self._given.take(workers):
            return None
        self._add(job, run.milli, firm_milli)
        return resumed(job_id, job, run, workers)

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
            family = family_of(job.project, job_id)
            options = options_for(self._state, family, job.gang)
            place, option = _chosen(options, job, seated)
            numbers |= numbers_of(option, place)
            names |= names_of(option)
        return Act(rule="made-room" if job.gaining else "fits", numbers=numbers, names=names)


def _chosen(
    options: Mapping[tuple[Shape, ...], tuple[Option, ...]], job: Job, seated: Seated
) -> tuple[int, Option]:
    """Which option the workers got, and what it says of the first role that asks for GPUs."""
    roles = list(job.gang.by_role())
    for place, (shapes, chosen) in enumerate(options.items()):
        mine = dict(zip(roles, shapes, strict=True))
        got = {
            role: msgspec.structs.replace(s, tolerations=()) for role, s in seated.shapes.items()
        }
        if all(mine[role] == shape for role, shape in got.items()):
            return place, next((option for option in chosen if option.kind.milli), chosen[0])
    raise AssertionError("a gang is placed as one of its options has it")


def _milli(workers: Iterable[Worker]) -> int:
    return sum(share.milli for worker in workers for share in worker.devices)
