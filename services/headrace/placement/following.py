"""How the scheduling core's world follows placement's state, piece by piece as that changes.

Rule: what changed since the last turn is remembered in the index; the world can be built anew from
the state at any time, and no decision differs because of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.placement.account_rules import tolerating
from headrace.placement.derived import NO_WINDOW, Index, index_of, total_milli
from headrace.placement.kept import takes_part
from headrace.placement.modelling import gang_of, machine_of, settings_of
from headrace.placement.offers import Offer
from headrace.placement.state import Job, State
from headrace.placement.usage_rules import used_lately
from headrace.scheduling.rations import leaf_of, path_up, specs_of
from headrace.scheduling.world import World


def world_of(state: State) -> World:
    """The cluster as it stands in this state."""
    index = index_of(state)
    world = index.world
    if world is None:
        world = index.world = World()
        index.repooled()
        index.changed_jobs = dict.fromkeys(state.jobs)
        index.changed_queues = dict.fromkeys(state.queues)
    if index.changed_pools or index.changed_settings:
        world.set_settings(settings_of(state))
        index.window = NO_WINDOW
    if index.changed_pools:
        index.changed_nodes.update(dict.fromkeys(_repooled(state, world)))
    if index.has_moved(state):
        index.quiet = False
    if index.learned != state.learned.number:
        index.learned = state.learned.number
        world.learn(state.learned)
    _follow_machines(state, index, world)
    if index.changed_queues or index.changed_users:
        _follow_queues(state, index, world)
    for job_id in index.changed_jobs:
        if _follow_job(state, world, job_id):
            index.watch_moments(state, job_id, state.jobs[job_id])
    for job_id in index.pausing:
        if job_id not in index.changed_jobs:  # but its devices may be free now, or taken
            _follow_job(state, world, job_id)
    world.evictions = state.evictions
    index.follows()
    return world


def world_at(state: State, now_us: int) -> World:
    """The cluster as a turn begins."""
    index, world = index_of(state), world_of(state)
    total = total_milli(state)
    window = (state.meters.window_at(now_us), total, world.accounts)
    if index.window != window:
        index.window = window
        world.set_usage(used_lately(state, world.queues, total, now_us))
    divisions = world.accounts.divisions
    world.begin(now_us)
    if world.accounts.divisions != divisions:
        index.quiet = False
    return world


def usage_moves_us(state: State) -> int | None:
    """When usage has to be looked at again, for somebody who waits."""
    index = index_of(state)
    if not index.waiting or not state.setting("usage_strength_milli"):
        return None
    return state.meters.closes_us(index.window[0])


def usage_counts(state: State, now_us: int) -> bool:
    """Whether what was used lately, looked at again, gives anybody another fair share."""
    moves_us = usage_moves_us(state)
    if moves_us is None or moves_us > now_us:
        return False
    world_at(state, now_us)
    return not index_of(state).quiet


def _follow_machines(state: State, index: Index, world: World) -> None:
    for name in index.changed_nodes:
        index.changed_jobs.update(index.on_node.get(name, {}))
    for job_id in index.changed_jobs:
        world.leave(job_id)
    for name in index.changed_nodes:
        if name in state.nodes:
            machine = machine_of(state.nodes[name], state.machines[name], state.pools)
            world.set_machine(machine)
        else:
            world.drop_machine(name)


def _repooled(state: State, world: World) -> Iterator[str]:
    """The nodes that are other machines since pools have changed."""
    for name, node in state.nodes.items():
        known = world.machines.get(name)
        machine = machine_of(node, state.machines[name], state.pools)
        if known is None or known.spec != machine:
            yield name


def _follow_queues(state: State, index: Index, world: World) -> None:
    """The tree is another one; what runs below a queue that changed may be safe for another time."""
    queues = specs_of(state.queues, _users(index))
    if queues != world.queues:
        before = [name for name in world.queues if name.partition("/")[0] in index.changed_leaves]
        world.set_queues(queues)
        if index.changed_leaves:
            world.requeue({*before, *index.changed_leaves}, _LeafOf(state))
    changed: dict[str, bool] = {}  # by project
    for job_id in index.running if index.changed_queues else ():
        job = state.jobs[job_id]
        if job.project not in changed:
            above = path_up(state.queues, job.project)
            changed[job.project] = any(queue.queue in index.changed_queues for queue in above)
        if changed[job.project]:
            index.watch_moments(state, job_id, job)


def _follow_job(state: State, world: World, job_id: str) -> bool:
    """Have the world see the job as it is; false when it is to know nothing of it."""
    job = state.jobs.get(job_id)
    world.leave(job_id)
    if job is None or not takes_part(state, job):
        return False
    world.enter(gang_of(state, job_id, job, _offer(state, job_id, job)))
    return True


class _LeafOf:
    """The queue of what is owned so."""

    def __init__(self, state: State) -> None:
        self._queues = state.queues

    def __call__(self, owner: str) -> str:
        project, _, user = owner.partition("/")
        return leaf_of(self._queues.get(project), project, user)


def _offer(state: State, job_id: str, job: Job) -> Offer:
    index = index_of(state)
    offer = index.kin.offer(state, job_id)
    return tolerating(offer, job.user) if job.user in index.trusted else offer


def _users(index: Index) -> dict[str, list[str]]:
    """Who has live jobs, by project."""
    users: dict[str, list[str]] = {}
    for project, user in sorted(index.users):
        users.setdefault(project, []).append(user)
    return users
