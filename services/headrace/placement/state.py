"""What placement knows: live jobs and groups, nodes, queues, and what everybody holds.

Rule: every field is folded from the log and survives a snapshot byte for byte. What can be derived
(pending order, timers) is kept beside the state in `derived.Index` and rebuilt from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from headrace.events.gangs import Seat, Share, Worker
from headrace.events.jobs import Checkpoint, Gang
from headrace.events.nodes import NodeJoined
from headrace.events.pools import Pool
from headrace.events.queues import Queue
from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.cluster import Node
from headrace.scheduling.tree import Usage

SILENCE_S = 10
ATTEMPTS_LOST_MAX = 3

CONSOLIDATE_AFTER_S = 30
RESERVE_AFTER_S = 600

STOP_GRACE_S = 10
REPLACE_MARGIN_S = 5
SILENT_TOGETHER_S = 60
PAUSE_WITHIN_S = 60
RESUME_ELSEWHERE_AFTER_S = 600

LOCKED, PAUSED, RUNNING = "locked", "paused", "running"  # phases wanted of an attempt

SETTINGS = {
    "consolidate_after_s": CONSOLIDATE_AFTER_S,  # who waits shorter has nobody moved
    "reserve_after_s": RESERVE_AFTER_S,  # who waits longer is told when it starts at the latest
    "silence_s": SILENCE_S,  # a node that says nothing for so long gets no new work
    "stop_grace_s": STOP_GRACE_S,  # between asking a worker to stop and killing it
    "replace_margin_s": REPLACE_MARGIN_S,  # for clocks and looks, beyond a lease and the grace
    "silent_together_s": SILENT_TOGETHER_S,  # silences that begin within it have one cause
    "pause_within_s": PAUSE_WITHIN_S,  # who takes longer to leave its devices is ended
    "resume_elsewhere_after_s": RESUME_ELSEWHERE_AFTER_S,  # who waits longer for its node leaves it
    "attempts_lost_max": ATTEMPTS_LOST_MAX,  # attempts of one job that may be lost to machines
}


class Exit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one worker ended, and when that was recorded."""

    reason: str
    exit_code: int = 0
    message: str = ""
    at_us: int = 0

    @property
    def clean(self) -> bool:
        """The command came to its own end and said all was well."""
        return self.reason == "exited" and self.exit_code == 0


class Pause(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far an attempt is with leaving its devices, or with coming back to them.

    `phase` is wanted of every worker since the decision at `position`. `reached` has the ranks that
    said so, with what they have on their devices while they are locked, and `reached_us` when the
    last of them did. `failed` is why one cannot, `broken` whether it cannot go on either. `at_us`
    is since when it tries to leave, or waits to come back. `booked`: it holds its devices.
    """

    phase: str
    position: int
    at_us: int
    reason: str
    gainer: str = ""
    reached: dict[int, int] = {}
    reached_us: int = 0
    failed: str = ""
    broken: bool = False
    booked: bool = True
    image_bytes: tuple[int, ...] = ()

    def is_reached(self, run: Run) -> bool:
        """Every worker does what is wanted of it."""
        return len(self.reached) == len(run.workers)


class Run(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The live attempt of a job. `started` and `exits` are by rank, in the order recorded.

    `begun_us` is when every worker ran (0: not yet); `evicted` why it is to stop ("": it is not).
    `way` is how it ends then. `cause` is the position of the last report about it. Its devices are
    booked since `booked_us`, and were before for `held_us`; it did not run for `rested_us`.
    """

    attempt: int
    position: int
    placed_us: int
    workers: tuple[Worker, ...]
    port: int = 0
    milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    started: dict[int, int] = {}
    exits: dict[int, Exit] = {}
    begun_us: int = 0
    evicted: str = ""
    evicted_us: int = 0
    gainer: str = ""
    way: str = ""
    cause: int = 0
    pause: Pause | None = None
    booked_us: int = 0
    held_us: int = 0
    rested_us: int = 0

    @property
    def booked(self) -> bool:
        """Whether its devices are taken; what is paused has left them."""
        return self.pause is None or self.pause.booked

    @property
    def leaving(self) -> bool:
        """Whether it is about to give its devices back."""
        pause = self.pause
        leaves = pause is not None and pause.booked and pause.phase != RUNNING
        return leaves or bool(self.evicted or self.exits)

    @property
    def gone(self) -> bool:
        """Every worker has gone, with proof."""
        return len(self.exits) == len(self.workers)


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """What a job that waits has from `at_us` on."""

    at_us: int
    made_at_us: int
    seats: tuple[Seat, ...]


class Job(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An admitted job that has not ended. `admitted_at` is the position of its admission.

    `cancelling` is why it is to end ("": it is not), decided at position `cancelled_at`. `gaining`:
    others are being stopped for it, so it comes first. `closing`: its last attempt is released and
    `job.finished` follows in the same decision. `pausing`: its people want it paused, by the decision
    at `pausing_at`; `paused` is how it is ("": it is not).
    """

    project: str
    user: str = ""
    gang: Gang
    requested_at: int
    admitted_at: int
    admitted_us: int
    priority: int = 0
    preemptible: bool = True
    max_duration_us: int = 0
    replace_after_us: int = 0
    group: str = ""
    index: int = 0
    traceparent: str = ""
    eligible: bool = False
    held: str = ""
    cancelling: str = ""
    cancelled_at: int = 0
    gaining: bool = False
    closing: bool = False
    attempt: int = 0
    lost: int = 0
    waited_us: int = -1
    checkpoint: Checkpoint | None = None
    pausing: bool = False
    pausing_at: int = 0
    paused: str = ""
    reserved: Reserved | None = None
    run: Run | None = None

    @property
    def waiting(self) -> bool:
        """Competes for devices now."""
        run = self.run
        free = run is None or not (run.booked or run.evicted or run.exits)
        return self.eligible and free and not (self.cancelling or self.closing or self.pausing)


class Group(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep or an array that has not ended. `live` holds the ids of its tasks that have not."""

    project: str
    tasks: int
    admitted_us: int
    stop_after_failures: int = 0
    traceparent: str = ""
    cancelling: str = ""
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
    tripped: dict[str, int] = {}  # devices whose counter refused a booking, and where that stands
    broken: dict[str, None] = {}  # devices that the node itself calls unhealthy


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


class Searching(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where the search for whom to stop goes on (`job` empty: from the start). `stale`: something
    has changed since it began. `over`: it came to its end and nothing has changed since.
    """

    action: str = ""
    job: str = ""
    stale: bool = False
    over: bool = False


class PoolApply(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's document that is not decided yet."""

    pool: Pool
    user: str


class State(msgspec.Struct, kw_only=True, dict=True):
    """All of it. `due` holds jobs whose life needs a decision, `groups_due` groups that may end."""

    settings: dict[str, int] = {}
    queues: dict[str, Queue] = {}
    usage: dict[str, Usage] = {}
    evictions: dict[str, list[int]] = {}  # by queue with a budget, when it lost jobs to others
    nodes: dict[str, Node] = {}
    machines: dict[str, Machine] = {}
    jobs: dict[str, Job] = {}
    groups: dict[str, Group] = {}
    due: dict[str, None] = {}
    groups_due: dict[str, None] = {}
    changes: dict[int, Change] = {}  # by position of the request
    arrivals: Arrivals = msgspec.field(default_factory=Arrivals)
    learned: Arrivals = msgspec.field(default_factory=Arrivals)  # what policies expect more of
    searching: Searching = msgspec.field(default_factory=Searching)
    pools: dict[str, Pool] = {}
    pools_applied: dict[int, PoolApply] = {}  # by position of the request
    measured: dict[str, tuple[Measured, ...]] = {}  # by family, who was measured last at the end
    secrets: dict[str, dict[str, str]] = {}  # project: name: current version in the vault
    ports: dict[str, dict[int, str]] = {}  # by address: port to the job that has it
    ports_next: dict[str, int] = {}

    def setting(self, name: str) -> int:
        """A number that `decide` reads: as the current leader recorded it."""
        return self.settings.get(name, SETTINGS[name])


def summed(workers: Iterable[Worker]) -> tuple[Share, ...]:
    """What these workers have of each device, by device."""
    totals: Counter[str] = Counter()
    for worker in workers:
        for share in worker.devices:
            totals[share.device] += share.milli
    return tuple(Share(device=device, milli=totals[device]) for device in sorted(totals))
