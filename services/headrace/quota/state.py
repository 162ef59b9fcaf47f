"""What quota knows: the tree, what the fleet has, and every live job's standing.

Rule: folded from the log only; total: what names an unknown job changes nothing.
"""

from __future__ import annotations

import msgspec

from headrace.events.asked import Dependency
from headrace.events.queues import Queue, QueueApplyRequested, QueueDeleteRequested
from headrace.scheduling.kinds import is_model
from headrace.scheduling.meters import Meters
from headrace.scheduling.tree import Usage

HELD_GROUP = "waits for another task of its group to end"
HELD_QUOTA = "cannot be preempted and waits for room within the quota"
HELD_DELETED = "its project was deleted"

SETTINGS = {
    "shares_interval_us": 1_000_000,  # shares are told to people at most this often
}


class Entrant(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A live job. `kinds` are the models that each role with GPUs accepts, with the milli-GPUs it
    needs of each, and `pools` where. `firm`: it, or its minimum, cannot be preempted. `held` is why it may not compete
    ("": it may, or nothing was decided yet). `pausing`: its people want it paused; `paused`: it is.
    `after` has what it still waits for, by job.
    """

    project: str
    milli: int
    admitted_at: int
    kinds: tuple[tuple[tuple[str, int], ...], ...] = ()
    pools: tuple[str, ...] = ()
    firm: bool = False
    group: str = ""
    traceparent: str = ""
    eligible: bool = False
    held: str = ""
    pausing: bool = False
    paused: bool = False
    after: dict[str, Dependency] = {}


class Group(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep or array of which `parallel` tasks compete at a time (0: all)."""

    parallel: int
    tasks: int
    project: str = ""
    eligible: int = 0
    waiting: dict[str, None] = {}


class State(msgspec.Struct, kw_only=True, dict=True):
    """All of it. `firm` is what jobs that cannot be preempted hold or were let in for; `wanted` is
    what each project's live jobs ask for.
    """

    settings: dict[str, int] = {}
    queues: dict[str, Queue] = {}
    asked: dict[int, QueueApplyRequested | QueueDeleteRequested] = {}  # by position
    configured: dict[str, int] = {}  # where each queue's document stands
    deleted: dict[str, None] = {}  # queues that were, and were not made anew
    capacity: dict[str, int] = {}  # milli-GPUs by node
    models: dict[str, dict[str, int]] = {}  # and by model of GPU
    jobs: dict[str, Entrant] = {}
    groups: dict[str, Group] = {}
    live_of: dict[str, int] = {}  # by project: jobs and groups that have not ended, without tasks
    awaited: dict[str, dict[str, None]] = {}  # a job: who waits for its end
    fresh: dict[str, dict[str, None]] = {}  # by project: nothing decided yet on the tree as it is
    never: dict[str, None] = {}  # held, as no limit of the tree as it is would ever let them run
    firm: dict[str, Usage] = {}
    firm_waiting: dict[str, dict[str, None]] = {}  # by project, in order of admission
    wanted: dict[str, int] = {}
    shares: dict[str, int] = {}
    shares_total_milli: int = -1
    shares_at_us: int = 0
    changed: bool = False  # something that shares depend on, since they were told
    held: dict[str, int] = {}  # milli-GPUs by project
    meters: Meters = msgspec.field(default_factory=Meters)  # what each queue used lately
    placing: dict[str, int] = {}  # the settings of whoever leads placement
    chosen: dict[str, int] = {}  # and what administrators chose of them

    def is_fresh(self, job_id: str) -> bool:
        """Whether nothing was decided yet on this live job, on the tree as it is."""
        return job_id in self.fresh.get(self.jobs[job_id].project, ())

    @property
    def total_milli(self) -> int:
        """Thousandths of GPUs of the whole fleet."""
        return sum(self.capacity.values())

    def milli_of(self, model: str) -> int:
        """Thousandths of GPUs of one model; `H100` means any `H100-…`."""
        return sum(
            milli
            for models in self.models.values()
            for name, milli in models.items()
            if is_model(name, model)
        )

    def setting(self, name: str) -> int:
        """A number that `decide` reads: as the current leader recorded it."""
        return self.settings.get(name, SETTINGS[name])
