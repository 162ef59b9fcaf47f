"""What placement knows: live jobs and groups, nodes, queues, and what everybody holds.

Rule: every field is folded from the log and survives a snapshot byte for byte. What can be derived
(pending order, timers) is kept beside the state in `derived.Index` and rebuilt from it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.events.asked import Gang, Retry
from headrace.events.gangs import Seat, Worker
from headrace.events.jobs import Checkpoint
from headrace.events.nodes import HeldWorker, NodeJoined
from headrace.events.pools import Pool, PoolApplyRequested, PoolDeleteRequested
from headrace.events.queues import Queue
from headrace.events.scheduling import (
    Scheduling,
    SchedulingApplyRequested,
    SchedulingDeleteRequested,
)
from headrace.events.volumes import Volume
from headrace.placement.runs import MOVED, Run
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.cluster import Node
from headrace.scheduling.meters import Meters
from headrace.scheduling.tree import Usage
from headrace.scheduling.usage import HALF_LIFE_S, MIN_RUNTIME_S, STRENGTH_MILLI

GROWTHS_MAX = 64  # of one attempt that nothing has been given back of: a decision ends with all

SILENCE_S = 10
ATTEMPTS_LOST_MAX = 3
REQUEUES_MAX = 1_000

SEARCH_RESTS_S = 30  # a search so long that it took several turns is not begun again earlier

CONSOLIDATE_AFTER_S = 30
RESERVE_AFTER_S = 600
RELEASE_S = 60
RESERVATIONS_MAX = 8
RESERVE_STEPS_MAX = 600

STOP_GRACE_S = 10
REPLACE_MARGIN_S = 5
SILENT_TOGETHER_S = 60
PAUSE_WITHIN_S = 60
RESUME_ELSEWHERE_AFTER_S = 600
ACCOUNTS_MAX, ACCOUNTS_PROJECT_MAX = 1_048_576, 4_096
DISK_FULL_PERMILLE, DISK_FREE_PERMILLE = 900, 880

UNSAID = -1  # in the document of how turns are taken
SETTINGS = {
    "consolidate_after_s": CONSOLIDATE_AFTER_S,  # who waits shorter has nobody moved
    "reserve_after_s": RESERVE_AFTER_S,  # who waits longer is told when it starts at the latest
    "release_s": RELEASE_S,  # what is being released is taken to be gone after that
    "reservations_max": RESERVATIONS_MAX,  # kinds of gangs that are told at a time
    "reserve_steps_max": RESERVE_STEPS_MAX,  # ends looked at for that, in one turn
    "silence_s": SILENCE_S,  # a node that says nothing for so long gets no new work
    "stop_grace_s": STOP_GRACE_S,  # between asking a worker to stop and killing it
    "replace_margin_s": REPLACE_MARGIN_S,  # for clocks and looks, beyond a lease and the grace
    "silent_together_s": SILENT_TOGETHER_S,  # silences that begin within it have one cause
    "pause_within_s": PAUSE_WITHIN_S,  # who takes longer to leave its devices is ended
    "resume_elsewhere_after_s": RESUME_ELSEWHERE_AFTER_S,  # who waits longer for its node leaves it
    "disk_full_permille": DISK_FULL_PERMILLE,  # a node whose disk is that full gets no new work
    "disk_free_permille": DISK_FREE_PERMILLE,  # until it is less full than this
    "usage_strength_milli": STRENGTH_MILLI,  # 1000: past usage counts as much as weight
    "usage_half_life_s": HALF_LIFE_S,  # usage counts half as much after so long
    "usage_min_runtime_s": MIN_RUNTIME_S,  # who runs shorter is not stopped for what was used
    "accounts_max": ACCOUNTS_MAX,  # that nodes reserve for jobs: one for each user of each project
    "accounts_project_max": ACCOUNTS_PROJECT_MAX,  # of these, to one project
    "requeues_max": REQUEUES_MAX,  # attempts after which one job may ask for another
    "attempts_lost_max": ATTEMPTS_LOST_MAX,  # attempts of one job that may be lost to machines
}


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """What a job that waits has from `at_us` on."""

    at_us: int
    made_at_us: int
    seats: tuple[Seat, ...]


class Job(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """An admitted job that has not ended. `admitted_at` is the position of its admission. There may
    be very many, and nothing in them refers back: so they are not searched for cycles.

    `lost` attempts were tried again for the platform's sake, `tries` as its own `retry` has it, the
    last because of `reason`; until `rests_until_us` it rests. `cancelling` is why it is to end ("":
    it is not), decided at position `cancelled_at`, and `cancel_message` more about it. `room_by_us`: others are being stopped for it and
    are to have gone by then, so it comes first. `closing`: its last attempt is released and
    `job.finished` follows in the same decision. `doubted`: an attempt that this log does not know may
    run, so none is begun. `pausing`: its people want it paused, by the
    decision at `pausing_at`; `paused` is how it is ("": it is not).
    """

    project: str
    user: str = ""
    gang: Gang
    requested_at: int
    admitted_at: int
    admitted_us: int
    priority: int = 0
    preemptible: bool = True
    protected_minimum: bool = False
    max_duration_us: int = 0
    replace_after_us: int = 0
    group: str = ""
    index: int = 0
    traceparent: str = ""
    eligible: bool = False
    held: str = ""
    cancelling: str = ""
    cancelled_at: int = 0
    cancel_message: str = ""
    room_by_us: int = 0
    closing: bool = False
    attempt: int = 0
    lost: int = 0
    retry: Retry = Retry()
    tries: int = 0
    requeues: int = 0  # attempts after which it asked for another
    reason: str = ""
    rests_until_us: int = 0
    waited_us: int = -1
    checkpoint: Checkpoint | None = None
    checkpoints: dict[int, str] = {}  # what was saved last, by rank
    cancelled_now: bool = False  # without being asked first
    pausing: bool = False
    pausing_at: int = 0
    paused: str = ""
    doubted: bool = False
    reserved: Reserved | None = None
    run: Run | None = None

    @property
    def gaining(self) -> bool:
        """Others are being stopped for it."""
        return bool(self.room_by_us)

    @property
    def waiting(self) -> bool:
        """Competes for devices now."""
        run = self.run
        free = run is None or not (run.booked or run.evicted or run.exits)
        held = self.cancelling or self.closing or self.pausing or self.rests_until_us
        held = held or self.doubted
        return self.eligible and free and not held

    @property
    def moving(self) -> bool:
        """Is being stopped to go on elsewhere."""
        wanted = self.eligible and not (self.cancelling or self.pausing)
        return wanted and self.run is not None and self.run.evicted == MOVED

    @property
    def is_elastic(self) -> bool:
        """Whether workers come and go while it runs."""
        return self.gang.nodes_max > self.gang.nodes

    @property
    def growing(self) -> bool:
        """Runs, and could do with more workers."""
        run = self.run
        if run is None or not self.is_elastic or not self.eligible or self.cancelling:
            return False
        if not run.begun_us or run.evicted or run.exits or run.pause is not None:
            return False
        growths = len({grant.position for grant in run.grants.values()})
        return len(run.staying) < self.gang.nodes_max and growths < GROWTHS_MAX

    def firm_milli(self, workers: tuple[Worker, ...]) -> int:
        """What of these workers cannot be taken from the job."""
        if self.preemptible and not self.protected_minimum:
            return 0
        firm = self._minimum(workers) if self.preemptible else workers
        return sum(share.milli for worker in firm for share in worker.devices)

    def is_enough(self, workers: Iterable[Worker]) -> bool:
        """Whether these workers are its minimum, in every role."""
        return self.gang.has_minimum(worker.role for worker in workers)

    def _minimum(self, workers: tuple[Worker, ...]) -> list[Worker]:
        """The first workers of each role, as many as it has at least."""
        left = {name: part.nodes for name, part in self.gang.by_role().items()}
        found = []
        for worker in workers:
            left[worker.role] = left.get(worker.role, 0) - 1
            if left[worker.role] >= 0:
                found.append(worker)
        return found


class Group(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep or an array that has not ended. `live` holds the ids of its tasks that have not."""

    project: str
    tasks: int
    admitted_us: int
    stop_after_failures: int = 0
    traceparent: str = ""
    cancelling: str = ""
    cancel_message: str = ""
    live: dict[str, None] = {}
    admitted: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    first_failure: str = ""
    exit_code: int = 0
    waited_us: int = -1
    begun_us: int = 0
    ended_us: int = 0


class Machine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known of a node beside its devices: what it last `said`, at position `joined`.

    `recorded` is the last report of its journal that is in the log. While it is `silent`,
    `silent_us` is for how long at least, and `silent_at_us` when that was recorded first.
    """

    said: NodeJoined
    joined: int
    recorded: int = 0
    silent: bool = False
    silent_us: int = 0
    silent_at_us: int = 0
    cordoned: bool = False
    kept_bytes: int = 0  # of its memory, by processes that have left their devices
    draining: int = 0  # its jobs are asked to move, by the decision at this position
    drains_at_us: int = 0  # but not before
    too_full: bool = False  # its disk
    tripped: dict[str, int] = {}  # devices whose counter refused a booking, and where that stands
    broken: dict[str, None] = {}  # devices that the node itself calls unhealthy
    faulted: dict[str, str] = {}  # devices that something happened to, and what
    apart: int = 0  # it does not follow this log, or is not known to, since that position
    strays: tuple[HeldWorker, ...] = ()  # what runs there and was not placed there
    ends_strays: bool = False  # as an operator wanted


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The line of history that the log is in: its name, its place in their order, where it began."""

    name: str = ""
    epoch: int = 0
    began_at: int = 0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """How long a step took, the last time that a job was measured on so many GPUs of a model."""

    model: str
    gpus: int
    step_time_us: int


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A request about a node that is not decided yet."""

    node: str
    change: str
    user: str
    deadline_us: int = 0


class Searching(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where the search for whom to stop goes on (`job` empty: from the start). `stale`: something
    has changed since it began. `rests_until_us`: it came to its end and nothing has changed since,
    but for the time, so that it need not begin again at once (0: it has not).
    """

    action: str = ""
    job: str = ""
    stale: bool = False
    rests_until_us: int = 0


class State(msgspec.Struct, kw_only=True, dict=True):
    """All of it. `due` holds jobs whose life needs a decision, `groups_due` groups that may end."""

    settings: dict[str, int] = {}
    queues: dict[str, Queue] = {}
    usage: dict[str, Usage] = {}
    meters: Meters = msgspec.field(default_factory=Meters)  # also of users who share a queue
    evictions: dict[str, list[int]] = {}  # by queue with a budget, when it lost jobs to others
    nodes: dict[str, Node] = {}
    machines: dict[str, Machine] = {}
    jobs: dict[str, Job] = {}
    groups: dict[str, Group] = {}
    due: dict[str, None] = {}
    groups_due: dict[str, None] = {}
    resting: dict[str, None] = {}  # jobs that are tried again later
    changes: dict[int, Change] = {}  # by position of the request
    forgotten: dict[str, int] = {}  # nodes to be deleted, since that position, once they are empty
    members: dict[str, str] = {}  # by node: what its launches are sealed to; empty: it was deleted
    arrivals: Arrivals = msgspec.field(default_factory=Arrivals)
    learned: Arrivals = msgspec.field(default_factory=Arrivals)  # what policies expect more of
    searching: Searching = msgspec.field(default_factory=Searching)
    pools: dict[str, Pool] = {}
    volumes: dict[str, Volume] = {}
    pools_asked: dict[int, PoolApplyRequested | PoolDeleteRequested] = {}  # by position
    measured: dict[str, tuple[Measured, ...]] = {}  # by family, who was measured last at the end
    accounts: dict[str, dict[str, int]] = {}  # project: user: number of their account
    accounts_assigned: int = 0  # numbers, from 1 on
    secrets: dict[str, dict[str, str]] = {}  # project: name: current version in the vault
    ports: dict[str, dict[int, str]] = {}  # by address: port to the job that has it
    ports_next: dict[str, int] = {}  # by node
    scheduling: Scheduling | None = None
    scheduling_asked: dict[int, SchedulingApplyRequested | SchedulingDeleteRequested] = {}
    lineage: Lineage = Lineage()

    def setting(self, name: str) -> int:
        """A number that `decide` reads: as administrators chose it, else as the leader recorded it."""
        chosen: int = getattr(self.scheduling, name, UNSAID)
        return chosen if chosen != UNSAID else self.settings.get(name, SETTINGS[name])
