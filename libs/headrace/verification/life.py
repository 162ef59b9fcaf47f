"""What the checks remember of one job."""

from __future__ import annotations

from headrace.events.asked import Gang

NEVER = 2**62  # a position no log reaches


class Grant:
    """A live attempt: where its workers are by rank, and what the log has proof of."""

    __slots__ = (
        "attempt", "begun", "cut", "done", "evicted", "first", "gone", "is_asked", "leaving", "left", "locked",
        "milli", "nodes", "paused", "phase_at", "ranks", "roles", "short", "short_us", "started",
    )  # fmt: skip

    def __init__(self, attempt: int, nodes: dict[int, str], milli: int) -> None:
        self.attempt, self.nodes, self.milli = attempt, nodes, milli
        self.ranks = len(nodes)  # ever given
        self.first = len(nodes)  # of them, when it was placed
        self.roles: dict[int, str] = {}  # of every rank ever given
        self.started: dict[int, int] = {}  # rank to position
        self.gone: dict[int, int] = {}
        self.done: dict[
            int, int
        ] = {}  # of them, whose command ended by itself and said all was well
        self.cut = False  # a worker that left had not done its work when all were told to stop
        self.is_asked = False  # told to save itself: it may still be told to stop at once
        self.leaving: dict[int, None] = {}
        self.left: dict[int, int] = {}  # rank to position: it is off its devices
        self.locked: dict[int, int] = {}
        self.phase_at = NEVER  # the last decision about leaving or coming back
        self.paused = False
        self.begun = self.evicted = self.short = self.short_us = NEVER


class Life:
    """A job's story so far, in positions."""

    __slots__ = (
        "admitted", "attempt", "cancelling", "finished", "gang", "grant", "group", "open_tasks",
        "paused", "pausing", "preemptible", "protected", "replace_after_us", "requested", "rests",
        "standings",
        "tasks", "unpaid",
    )  # fmt: skip

    def __init__(self, requested: int, *, group: str = "", preemptible: bool = True) -> None:
        self.requested, self.group, self.preemptible = requested, group, preemptible
        self.admitted = self.cancelling = self.finished = NEVER
        self.attempt = self.tasks = self.open_tasks = 0
        self.gang = Gang(nodes=0)  # what it asks for
        self.protected = False  # of a preemptible job, its minimum
        self.pausing = self.paused = False  # its people want that; it is so
        self.replace_after_us = 0
        self.standings: tuple[tuple[int, bool], ...] = ()
        self.grant: Grant | None = None
        self.rests = False
        self.unpaid: list[tuple[int, int, int]] = []  # attempt, milli, held µs

    def stand(self, position: int, *, eligible: bool) -> None:
        """Quota says whether the job may compete from now on."""
        self.standings = (*self.standings[-3:], (position, eligible))

    @property
    def nodes_max(self) -> int:
        """How many workers it may have at most."""
        return max(self.gang.nodes, self.gang.nodes_max)

    def was_eligible(self, basis: int) -> bool:
        """Whether the job might compete as the log stood at `basis`."""
        known = [eligible for position, eligible in self.standings if position <= basis]
        return bool(known) and known[-1]
