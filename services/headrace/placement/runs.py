"""The live attempt of a job: its workers, and what the log has of each.

Rule: folded from the log and part of placement's state.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

import msgspec

from headrace.events.gangs import Share, Worker

LOCKED, PAUSED, RUNNING = "locked", "paused", "running"  # phases wanted of an attempt
MOVED = "moved"  # why one is to stop that has its minimum elsewhere then


class Exit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one worker ended, when that was recorded, and when it was by its node's clock."""

    reason: str
    exit_code: int = 0
    message: str = ""
    at_us: int = 0
    node_us: int = 0
    process: int = -1

    @property
    def clean(self) -> bool:
        """The command came to its own end and said all was well."""
        return self.reason == "exited" and self.exit_code == 0


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """When a worker that came later got its devices, and where the log says so."""

    position: int
    at_us: int


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
    """The live attempt of a job. `workers` are those not released, by ascending rank; `started` and
    `exits` are by rank, in the order recorded. The next to come gets the rank `ranks`.

    `begun_us` is when every worker ran (0: not yet); `evicted` why it is to stop ("": it is not).
    `leaving` says which ranks alone are to stop, and why; `grants` are of those that came later.
    `way` is how it ends then. `cause` is the position of the last report about it. Its devices are
    booked since `since_us`; it did not run for `rested_us`.
    It ran for `overran_us`, longer than it may (0: it did not).
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
    way: str = ""
    pause: Pause | None = None
    since_us: int = 0
    rested_us: int = 0
    overran_us: int = 0

    @property
    def booked(self) -> bool:
        """Whether its devices are taken; what is paused has left them."""
        return self.pause is None or self.pause.booked

    @property
    def gives_back(self) -> bool:
        """Whether it is about to leave its devices with its processes alive."""
        pause = self.pause
        return pause is not None and pause.booked and pause.phase != RUNNING

    @property
    def gone(self) -> bool:
        """Every worker has gone, with proof."""
        return len(self.exits) == len(self.workers)

    @property
    def stops(self) -> bool:
        """All or part of it is to stop."""
        return bool(self.evicted or self.leaving or self.gives_back)

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
        return grant.at_us if grant is not None else self.since_us

    def granted_at(self, rank: int) -> int:
        """Where the log gave the worker its devices."""
        grant = self.grants.get(rank)
        return grant.position if grant is not None else self.position


def summed(workers: Iterable[Worker]) -> tuple[Share, ...]:
    """What these workers have of each device, by device."""
    totals: Counter[str] = Counter()
    for worker in workers:
        for share in worker.devices:
            totals[share.device] += share.milli
    return tuple(Share(device=device, milli=totals[device]) for device in sorted(totals))
