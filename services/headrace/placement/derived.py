"""What is derived from placement's state and kept beside it, so that a turn costs what changed.

Rule: everything here can be rebuilt from the state (`index_of` does so after a snapshot), and no
decision may differ because of what is or is not remembered here.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from headrace.events.gangs import Worker
from headrace.placement.account_rules import trusted_on
from headrace.placement.kept import takes_part
from headrace.placement.kin import Kin
from headrace.placement.life_rules import is_due
from headrace.placement.modelling import SECOND_US
from headrace.placement.pause_rules import deadline_us
from headrace.placement.runs import Run
from headrace.placement.state import Job, State
from headrace.scheduling.accounts import Accounts
from headrace.scheduling.rations import path_up
from headrace.scheduling.world import World

Window = tuple[int, int, Accounts | None]  # its number, the fleet's size then, and the tree
NO_WINDOW: Window = (-1, 0, None)


class Index:
    """Who waits, who runs, who is stopping, when time alone matters, and the scheduler's world."""

    def __init__(self, state: State) -> None:
        self.waiting: dict[str, None] = {}
        self.running: dict[str, tuple[Worker, ...]] = {}  # job: its workers
        self.growing: dict[str, None] = {}  # who runs and could do with more workers
        self.on_node: dict[str, dict[str, None]] = {}  # node: jobs with a worker there
        self.silent: dict[str, None] = {}  # nodes
        self.unsettled: dict[str, None] = {}  # nodes that hold or obey what this log does not know
        self.stopping: dict[str, None] = {}
        self.gaining: dict[str, None] = {}
        self.reserved: dict[str, None] = {}  # who waits or moves with a reservation
        self.pausing: dict[str, None] = {}  # leaves its devices, has left them, or comes back
        self.total_milli = -1  # of all usable devices; below 0: to be summed again
        self.moments: list[tuple[int, str, int]] = []  # of jobs (and attempt, or 0), or of nobody
        self.idle = False  # the last decision on this very state was to do nothing
        self.quiet = False  # the last search on the world as it stands found nothing to do
        self.world: World | None = None
        self.changed_jobs: dict[str, None] = {}  # since the world followed the state
        self.changed_nodes: dict[str, None] = {}
        self.changed_queues: dict[str, None] = {}
        self.changed_leaves: dict[str, None] = {}  # of these, whose jobs are in other queues now
        self.window: Window = NO_WINDOW  # by which usage was judged
        self.kin = Kin(state.measured)
        self.learned = 0  # how many arrivals the world's policies know of
        self.changed_pools = self.changed_users = self.changed_settings = False
        self.trusted = trusted_on(state)  # users whose jobs go to nodes that take nobody else's
        self.users: dict[tuple[str, str], int] = {}  # how many live jobs, by project and user
        self.owners: dict[str, tuple[str, str]] = {}  # project and user of each live job

    def sync(self, job_id: str, job: Job, *, moved: bool = True) -> None:
        """Bring up to date what is kept about this live job; the world's part if it has `moved`."""
        if moved:
            self.changed_jobs[job_id] = None
        if job_id not in self.owners:
            owner = self.owners[job_id] = (job.project, job.user)
            self.changed_users |= owner not in self.users
            self.users[owner] = self.users.get(owner, 0) + 1
        self.kin.enter(job_id, job)
        run, waiting = job.run, job.waiting
        self._run(job_id, run)
        for members, is_in in (
            (self.waiting, waiting),
            (self.growing, job.growing),
            (self.stopping, run is not None and run.stops),
            (self.pausing, run is not None and run.pause is not None),
            (self.gaining, waiting and job.gaining),
            (self.reserved, job.reserved is not None and (waiting or job.moving)),
        ):
            if is_in:
                members[job_id] = None
            elif job_id in members:
                del members[job_id]

    def drop(self, job_id: str) -> None:
        """The job has ended."""
        self.changed_jobs[job_id] = None
        owner = self.owners.pop(job_id)
        self.users[owner] -= 1
        if not self.users[owner]:
            del self.users[owner]
            self.changed_users = True
        self.kin.leave(job_id)
        self._run(job_id, None)
        for members in (
            self.waiting, self.growing, self.stopping, self.gaining, self.reserved, self.pausing,
        ):  # fmt: skip
            members.pop(job_id, None)

    def follows(self) -> None:
        """The world follows the state again."""
        self.changed_jobs, self.changed_nodes = {}, {}
        self.changed_queues, self.changed_leaves = {}, {}
        self.changed_pools = self.changed_users = self.changed_settings = False

    def has_moved(self, state: State) -> bool:
        """Whether anything has changed that the world does not know of yet."""
        self.changed_jobs.update(self.kin.moved(state))
        changed = (self.changed_jobs, self.changed_nodes, self.changed_queues, self.pausing)
        others = self.changed_pools or self.changed_users or self.changed_settings
        return others or any(changed) or self.learned != state.learned.number

    def watch_pause(self, state: State, job_id: str, job: Job) -> None:
        """Remember when a pause, or a wait for devices that were left, has taken too long."""
        due_us = deadline_us(state, job)
        if job.run is not None and due_us is not None:
            heappush(self.moments, (due_us, job_id, job.run.attempt))

    def watch_moments(self, state: State, job_id: str, job: Job) -> None:
        """Remember when time alone may let something happen to this job."""
        attempt = job.run.attempt if job.run is not None else 0
        for moment_us in _moments_of(state, job):
            heappush(self.moments, (moment_us, job_id, attempt))

    def repooled(self) -> None:
        """A pool or a volume is new or has changed."""
        self.changed_pools = True
        self.kin.repooled()

    def resettled(self, state: State, now_us: int) -> None:
        """The settings are others; who waits or runs may matter at other moments. Those that have
        passed are looked at in any case.
        """
        self.changed_settings = True
        known = self.world.gangs if self.world is not None else {}
        waiting = ((job_id, state.jobs[job_id]) for job_id in self.waiting)
        self.changed_jobs.update(  # there may be an account for them now, or none any more
            {job_id: None for job_id, job in waiting if (job_id in known) != takes_part(state, job)}
        )
        afters_us = _patience_us(state)
        for job_id in self.waiting:
            job = state.jobs[job_id]
            attempt = job.run.attempt if job.run is not None else 0
            for after_us in afters_us:
                if job.admitted_us + after_us > now_us:
                    self.moments.append((job.admitted_us + after_us, job_id, attempt))
        heapify(self.moments)
        for job_id in self.running:
            self.watch_moments(state, job_id, state.jobs[job_id])

    def requeued(self, state: State, name: str, *, users_equal: bool) -> None:
        """A queue is new, has changed or is gone; its users shared it equally before, or did not."""
        self.changed_queues[name] = None
        self.watch_budgets(state, name)
        now = state.queues.get(name)
        if (now is not None and now.users_equal) != users_equal:  # its jobs are in other queues
            self.changed_leaves[name] = None
            mine = (job_id for job_id in self.running if state.jobs[job_id].project == name)
            self.changed_jobs.update(dict.fromkeys(mine))

    def rejoined(self, state: State) -> None:
        """A node is new, says something else, or is gone; it may trust somebody else now."""
        trusted = trusted_on(state)
        if trusted != self.trusted:
            self.trusted = trusted
            self.changed_jobs.update(dict.fromkeys(state.jobs))

    def watch_moment(self, at_us: int) -> None:
        """Remember a moment of no job: a queue may lose one more, a search may begin again, those on
        a drained node have had their time.
        """
        heappush(self.moments, (at_us, "", 0))

    def watch_budgets(self, state: State, queue: str) -> None:
        """Remember when each eviction that counts for this queue leaves its window."""
        if queue in state.queues:
            per_us = state.queues[queue].evictions_per_us
            for at_us in state.evictions.get(queue, ()):
                self.watch_moment(at_us + per_us)

    def passed(self, state: State, now_us: int) -> bool:
        """Whether a moment has come since this was asked last."""
        found = False
        while (moment_us := self.wakeup(state)) is not None and moment_us <= now_us:
            heappop(self.moments)
            found = True
        return found

    def wakeup(self, state: State) -> int | None:
        """The next moment at which time alone may lead to a decision."""
        while self.moments:
            moment_us, job_id, attempt = self.moments[0]
            if _matters(state, job_id, attempt):
                return moment_us
            heappop(self.moments)
        return None

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
    index = Index(state)
    index.silent = {name: None for name, machine in state.machines.items() if machine.silent}
    unsettled = (name for name, each in state.machines.items() if each.apart or each.strays)
    index.unsettled = dict.fromkeys(unsettled)
    for job_id, job in state.jobs.items():
        index.sync(job_id, job)
        index.watch_pause(state, job_id, job)
    for queue in state.evictions:
        index.watch_budgets(state, queue)
    drains = [machine.drains_at_us for machine in state.machines.values() if machine.draining]
    rests = [state.jobs[job_id].rests_until_us for job_id in state.resting]
    for moment_us in filter(None, (*drains, *rests, state.searching.rests_until_us)):
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
    index = index_of(state)
    index.sync(job_id, job, moved=moved)
    if job.run is not None and job.run.pause is not None:
        index.watch_pause(state, job_id, job)


def _matters(state: State, job_id: str, attempt: int) -> bool:
    """Whether a moment is still of anybody: one of no job always is. None is ever taken back."""
    job = state.jobs.get(job_id)
    if job is None:
        return not job_id
    return attempt == (job.run.attempt if job.run is not None else 0)


def _moments_of(state: State, job: Job) -> Iterator[int]:
    """When time alone may let something happen: the job has waited long enough to have others
    moved or to get a reservation, or that begins, or others should have gone for it; or it has run
    long enough to be taken from.
    """
    if job.waiting:
        for after_us in _patience_us(state):
            yield job.admitted_us + after_us
        if job.reserved is not None:
            yield job.reserved.at_us
        if job.gaining:
            yield job.room_by_us + 1
    elif job.run is not None:
        started_us = job.run.begun_us or job.run.placed_us
        if state.setting("usage_strength_milli"):
            yield started_us + state.setting("usage_min_runtime_s") * SECOND_US
        for queue in path_up(state.queues, job.project):
            for after_us in (queue.reclaim_after_us, queue.preempt_after_us):
                if after_us > 0:
                    yield started_us + after_us


def _patience_us(state: State) -> list[int]:
    """How long a job has waited when more may be done for it."""
    settings = ("consolidate_after_s", "reserve_after_s")
    return [state.setting(name) * SECOND_US for name in settings]
