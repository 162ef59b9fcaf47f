"""The live attempt of a job: its workers, and what the log has of each.

Rule: folded from the log and part of placement's state.
"""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from headrace.events.gangs import Worker


class Exit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one worker ended, when that was recorded, and when it was by its node's clock."""

    reason: str
    exit_code: int = 0
    message: str = ""
    at_us: int = 0
    node_us: int = 0

    @property
    def clean(self) -> bool:
        """The command came to its own end and said all was well."""
        return self.reason == "exited" and self.exit_code == 0


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """When a worker that came later got its devices, and where the log says so."""

    position: int
    at_us: int


class Run(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The live attempt of a job. `workers` are those not released, by ascending rank; `started` and
    `exits` are by rank, in the order recorded. The next to come gets the rank `ranks`.

    `begun_us` is when every worker ran (0: not yet); `evicted` why it is to stop ("": it is not).
    `leaving` says which ranks alone are to stop, and why; `grants` are of those that came later.
    `cause` is the position of the last report about it.
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
    ranks: int = 0
    leaving: dict[int, str] = {}
    grants: dict[int, Grant] = {}
    begun_us: int = 0
    evicted: str = ""
    evicted_us: int = 0
    gainer: str = ""
    cause: int = 0
    faulty: tuple[str, str] = ("", "")  # a device of its that is at fault, and how

    @property
    def gone(self) -> bool:
        """Every worker has gone, with proof."""
        return len(self.exits) == len(self.workers)

    @property
    def stops(self) -> bool:
        """All or part of it is to stop."""
        return bool(self.evicted or self.leaving)

    def takes(self, worker: Worker) -> tuple[int, int]:
        """Thousandths of cores and bytes of memory that the worker has on its node."""
        return self.cpu_milli + worker.cpu_milli, self.memory_bytes + worker.memory_bytes

    @property
    def staying(self) -> list[Worker]:
        """The workers that have not gone and are not to."""
        gone = {*self.exits, *self.leaving}
        return [worker for worker in self.workers if worker.rank not in gone]

    @property
    def sound(self) -> list[Worker]:
        """The workers that stay, or came to their own end and said all was well."""
        bad = {rank for rank, end in self.exits.items() if not end.clean}
        return [w for w in self.workers if w.rank not in bad and w.rank not in self.leaving]

    def worker(self, rank: int) -> Worker | None:
        """The worker of this rank; None when it never was, or is released."""
        at = bisect_left(self.workers, rank, key=lambda worker: worker.rank)
        found = self.workers[at] if at < len(self.workers) else None
        return found if found is not None and found.rank == rank else None

    def booked_us(self, rank: int) -> int:
        """Since when the worker has its devices."""
        grant = self.grants.get(rank)
        return grant.at_us if grant is not None else self.placed_us

    def granted_at(self, rank: int) -> int:
        """Where the log gave the worker its devices."""
        grant = self.grants.get(rank)
        return grant.position if grant is not None else self.position
