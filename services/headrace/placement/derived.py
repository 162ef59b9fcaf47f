"""What is derived from placement's state and kept beside it, so that a turn costs what changed.

Rule: everything here can be rebuilt from the state (`index_of` does so after a snapshot), and no
decision may differ because of what is or is not remembered here.
"""

from __future__ import annotations

from heapq import heappop, heappush

from headrace.events.gangs import Worker
from headrace.placement.life_rules import is_due
from headrace.placement.modelling import gang_of, machine_of, moments_of, settings_of
from headrace.placement.option_rules import family_of
from headrace.placement.runs import Run
from headrace.placement.state import Job, State
from headrace.placement.usage_rules import used_lately, window_at, window_ms
from headrace.scheduling.accounts import Accounts
from headrace.scheduling.rations import specs_of
from headrace.scheduling.world import World

Window = tuple[int, int, Accounts | None]  # its number, the fleet's size then, and the tree
NO_WINDOW: Window = (-1, 0, None)


class Index:
    """Who waits, who runs, who is stopping, when time alone matters, and the scheduler's world."""

    def __init__(self) -> None:
        self.waiting: dict[str, None] = {}
        self.running: dict[str, tuple[Worker, ...]] = {}  # job: its workers
        self.growing: dict[str, None] = {}  # who runs and could do with more workers
        self.on_node: dict[str, dict[str, None]] = {}  # node: jobs with a worker there
        self.silent: dict[str, None] = {}  # nodes
        self.stopping: dict[str, None] = {}
        self.gaining: dict[str, None] = {}
        self.reserved: dict[str, None] = {}  # who waits with a reservation
        self.timers: list[tuple[int, str, int]] = []  # deadline, job, attempt
        self.total_milli = -1  # of all usable devices; below 0: to be summed again
        self.moments: list[tuple[int, str, int]] = []  # of jobs (and attempt, or 0), or of nobody
        self.idle = False  # the last decision on this very state was to do nothing
        self.world: World | None = None
        self.changed_jobs: dict[str, None] = {}  # since the world followed the state
        self.changed_nodes: dict[str, None] = {}
        self.changed_queues = False
        self.window: Window = NO_WINDOW  # by which usage was judged
        self.families: dict[str, dict[str, None]] = {}  # who waits, by who tells how fast it runs
        self.learned = 0  # how many arrivals the world's policies know of
        self.changed_pools = self.changed_users = False
        self.users: dict[tuple[str, str], int] = {}  # how many live jobs, by project and user
        self._owners: dict[str, tuple[str, str]] = {}  # of live jobs

    def sync(self, job_id: str, job: Job, *, moved: bool = True) -> None:
        """Bring up to date what is kept about this live job; the world's part if it has `moved`."""
        self.changed_jobs.update({job_id: None} if moved else {})
        if job_id not in self._owners:
            owner = self._owners[job_id] = (job.project, job.user)
            self.changed_users |= owner not in self.users
            self.users[owner] = self.users.get(owner, 0) + 1
        _member(self.waiting, job_id, present=job.waiting)
        self._relate(family_of(job.project, job_id), job_id, waits=job.waiting)
        self._run(job_id, job.run)
        _member(self.growing, job_id, present=job.growing)
        _member(self.stopping, job_id, present=job.run is not None and job.run.stops)
        _member(self.gaining, job_id, present=job.gaining and job.waiting)
        _member(self.reserved, job_id, present=job.reserved is not None and job.waiting)

    def drop(self, job_id: str) -> None:
        """The job has ended."""
        self.changed_jobs[job_id] = None
        owner = self._owners.pop(job_id)
        self.users[owner] -= 1
        if not self.users[owner]:
            del self.users[owner]
            self.changed_users = True
        self._relate(family_of(owner[0], job_id), job_id, waits=False)
        self._run(job_id, None)
        for members in (self.waiting, self.growing, self.stopping, self.gaining, self.reserved):
            members.pop(job_id, None)

    def follows(self) -> None:
        """The world follows the state again."""
        self.changed_jobs, self.changed_nodes = {}, {}
        self.changed_queues = self.changed_pools = self.changed_users = False

    def watch(self, job_id: str, job: Job) -> None:
        """Remember when the attempt that has just begun must end."""
        if job.max_duration_us and job.run is not None and job.run.begun_us:
            deadline_us = job.run.begun_us + job.max_duration_us
            heappush(self.timers, (deadline_us, job_id, job.run.attempt))

    def measured(self, family: str) -> None:
        """More is known of how fast the jobs of this family run."""
        self.changed_jobs.update(self.families.get(family, {}))

    def watch_moment(self, at_us: int) -> None:
        """Remember a moment of no job: a queue may lose one more, a search may begin again."""
        heappush(self.moments, (at_us, "", 0))

    def watch_budgets(self, state: State, queue: str) -> None:
        """Remember when each eviction that counts for this queue leaves its window."""
        if queue in state.queues:
            per_us = state.queues[queue].evictions_per_us
            for at_us in state.evictions.get(queue, ()):
                self.watch_moment(at_us + per_us)

    def next_deadline_us(self, state: State) -> int | None:
        """When the next attempt reaches its maximum duration."""
        while self.timers:
            deadline_us, job_id, attempt = self.timers[0]
            if _ticking(state, job_id, attempt):
                return deadline_us
            heappop(self.timers)
        return None

    def passed(self, state: State, now_us: int) -> bool:
        """Whether a moment has come since this was asked last."""
        found = False
        while (moment_us := self._next_moment_us(state)) is not None and moment_us <= now_us:
            heappop(self.moments)
            found = True
        return found

    def wakeup(self, state: State) -> int | None:
        """The next moment at which time alone may lead to a decision."""
        known = (self.next_deadline_us(state), self._next_moment_us(state))
        return min((moment for moment in known if moment is not None), default=None)

    def _next_moment_us(self, state: State) -> int | None:
        while self.moments:
            moment_us, job_id, attempt = self.moments[0]
            if _matters(state, job_id, attempt):
                return moment_us
            heappop(self.moments)
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

    def _relate(self, family: str, job_id: str, *, waits: bool) -> None:
        members = self.families.setdefault(family, {})
        _member(members, job_id, present=waits)
        if not members:
            del self.families[family]

    def _run(self, job_id: str, run: Run | None) -> None:
        """The job may have got an attempt, or lost it, or have other workers now."""
        before, now = self.running.get(job_id, ()), run.workers if run is not None else ()
        if before is now:
            return
        for worker in self.running.pop(job_id, ()):
            self.on_node[worker.node].pop(job_id, None)
        for worker in now:
            self.running[job_id] = now
            self.on_node.setdefault(worker.node, {})[job_id] = None


def index_of(state: State) -> Index:
    """What is kept beside this state; built anew when there is nothing yet."""
    index: Index | None = state.__dict__.get("index")
    return build(state) if index is None else index


def build(state: State) -> Index:
    """Everything derived, from the state alone."""
    index = Index()
    index.silent = {name: None for name, machine in state.machines.items() if machine.silent}
    for job_id, job in state.jobs.items():
        index.sync(job_id, job)
        index.watch(job_id, job)
    for queue in state.evictions:
        index.watch_budgets(state, queue)
    rests = [state.jobs[job_id].rests_until_us for job_id in state.resting]
    for moment_us in filter(None, (*rests, state.searching.rests_until_us)):
        index.watch_moment(moment_us)
    state.__dict__["index"] = index
    return index


def total_milli(state: State) -> int:
    """Thousandths of usable GPUs of the whole fleet."""
    index = index_of(state)
    if index.total_milli < 0:
        index.total_milli = sum(node.capacity_milli for node in state.nodes.values())
    return index.total_milli


def settle(state: State, job_id: str, job: Job, *, moved: bool = True) -> None:
    """After a change of this job, `moved` if it asks for or has anything else than before."""
    if is_due(job):
        state.due[job_id] = None
    else:
        state.due.pop(job_id, None)
    index_of(state).sync(job_id, job, moved=moved)


def world_of(state: State) -> World:
    """The cluster as it stands in this state."""
    index = index_of(state)
    world = index.world
    if world is None:
        world = index.world = World()
        index.changed_pools = True
        index.changed_jobs = dict.fromkeys(state.jobs)
    if index.changed_pools:  # every node and every job may be in other pools now
        world.set_settings(settings_of(state))
        index.changed_nodes = dict.fromkeys(state.nodes)
        index.changed_queues = True
        index.window = NO_WINDOW
    if index.learned != state.learned.number:
        index.learned = state.learned.number
        world.learn(state.learned)
    _follow_machines(state, index, world)
    if index.changed_queues:  # and to other queues, perhaps
        index.changed_jobs = dict.fromkeys(state.jobs)
    if index.changed_queues or index.changed_users:
        queues = specs_of(state.queues, _users(index))
        if queues != world.queues:
            world.set_queues(queues)
    for job_id in index.changed_jobs:
        job = state.jobs.get(job_id)
        if job is not None and (job.waiting or job.run is not None):
            world.enter(gang_of(state, job_id, job))
            for moment_us in moments_of(state, job):
                attempt = job.run.attempt if job.run is not None else 0
                heappush(index.moments, (moment_us, job_id, attempt))
        else:
            world.leave(job_id)
    world.evictions = state.evictions
    index.follows()
    return world


def world_at(state: State, now_us: int) -> World:
    """The cluster as a turn begins."""
    index, world = index_of(state), world_of(state)
    total = total_milli(state)
    window = (window_at(state, now_us), total, world.accounts)
    if index.window != window:
        index.window = window
        world.set_usage(used_lately(state, world.queues, total, now_us))
    world.begin(now_us)
    return world


def usage_moves_us(state: State) -> int | None:
    """When usage has to be looked at again, for somebody who waits."""
    index = index_of(state)
    if not index.waiting or not state.setting("usage_strength_milli"):
        return None
    return (index.window[0] + 1) * window_ms(state) * 1000


def _follow_machines(state: State, index: Index, world: World) -> None:
    for name in index.changed_nodes:
        index.changed_jobs.update(index.on_node.get(name, {}))
    for job_id in index.changed_jobs:
        world.leave(job_id)
    for name in index.changed_nodes:
        machine = machine_of(state.nodes[name], state.machines[name], state.pools)
        world.set_machine(machine)


def _users(index: Index) -> dict[str, list[str]]:
    """Who has live jobs, by project."""
    users: dict[str, list[str]] = {}
    for project, user in sorted(index.users):
        users.setdefault(project, []).append(user)
    return users


def _ticking(state: State, job_id: str, attempt: int) -> bool:
    job = state.jobs.get(job_id)
    run = job.run if job is not None else None
    return run is not None and run.attempt == attempt and not run.evicted and not run.gone


def _matters(state: State, job_id: str, attempt: int) -> bool:
    """Whether a moment is still of anybody: one of no job always is."""
    job = state.jobs.get(job_id)
    if job is None:
        return not job_id
    return attempt == (job.run.attempt if job.run is not None else 0)


def _member(members: dict[str, None], job_id: str, *, present: bool) -> None:
    """Put the job in or out."""
    if present:
        members[job_id] = None
    else:
        members.pop(job_id, None)
