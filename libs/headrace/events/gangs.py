"""Gangs: a job's workers, placed together, evicted together, released together; what an elastic gang
has above its minimum comes and goes while the others run.

Rule: a device is booked by `gang.placed`, `gang.grown` and `gang.resumed`, and given back by
`gang.released` and `workers.released`, which are decided only on proof that the workers have gone,
and by `gang.paused`, on proof that they have left their devices.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.asked import Accelerator
from headrace.events.base import Decision, Fact


class Share(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`milli` thousandths of the device `device` (a UUID)."""

    device: str
    milli: int = 1000


class Worker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node's part of a gang: rank, node, and the devices it got there, in order.

    Ranks of an attempt are given in ascending order and never again, so that each names one worker.
    Its peers reach it at `address`, where `ports` ports from `port` on are its own: one for what it
    does as a whole (rank 0 listens there for all), and one for each of its processes.
    Of a gang with roles it has one, and `cpu_milli` and `memory_bytes` are booked for it.
    """

    rank: int
    node: str
    address: str
    devices: tuple[Share, ...] = ()
    role: str = ""
    port: int = 0
    ports: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0


class Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule behind a placement or an eviction, with its numbers (at most 4 KiB encoded)."""

    rule: str
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}


class GangPlaced(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.placed.v1"):
    """All workers of this attempt have their devices. Books them.

    `port` is where rank 0 listens for its peers. `milli` sums over the gang. Per-node booking of
    CPU and memory is in `cpu_milli` and `memory_bytes`, of a gang with roles each worker's own.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "workers")
    job: str
    project: str
    attempt: int
    workers: tuple[Worker, ...]
    requested_at: int
    port: int = 0
    milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    per_gpu_processes: bool = False
    act: Act


class GangGrown(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.grown.v1"):
    """An elastic gang that runs gets `workers` beside those it has. Books them.

    `milli` sums over the new ones. CPU and memory per node are as `gang.placed` says.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "workers")
    job: str
    project: str
    attempt: int
    workers: tuple[Worker, ...]
    milli: int = 0
    act: Act


class GangShrunk(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.shrunk.v1"):
    """These workers of an elastic gang are to stop; the others run on. `reason` is reclaimed,
    preempted or moved.

    Their devices stay booked until `workers.released`.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "ranks", "reason")
    job: str
    project: str
    attempt: int
    ranks: tuple[int, ...]
    reason: str
    gainer: str = ""  # the job this makes room for
    act: Act


class GangEvicted(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.evicted.v1"):
    """The attempt is to stop. `reason` is reclaimed, cancelled, timeout, worker-failed,
    device-faulty, paused, finished (the role that counts has), …

    `way` is signal when the job is to save itself first, by its checkpoint signal. Its devices stay booked until `gang.released`.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "reason")
    job: str
    project: str
    attempt: int
    reason: str
    gainer: str = ""  # the job this makes room for
    act: Act
    way: str = ""


class Seat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is reserved for one worker: `milli` thousandths, of shared `devices` by name, of whole
    ones `count` of the node's `kind`th kind of device.
    """

    rank: int
    node: str
    devices: tuple[str, ...] = ()
    milli: int = 0
    count: int = 0
    kind: int = 0


class GangReserved(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.reserved.v1"):
    """The gang, which has waited long, has these seats from `at_us` on even if everybody runs for as
    long as they may. Replaces what was reserved for it before: without seats, nothing is any more,
    and the act's rule says why: node-lost, node-smaller, device-gone, limit-lowered, pool-changed,
    queue-gone, grown or not-waiting.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "at_us")
    job: str
    project: str
    at_us: int = 0
    seats: tuple[Seat, ...] = ()
    act: Act


class WorkersReleased(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="workers.released.v1"
):
    """These workers have gone and their devices are free. They were booked together, and `held_us`
    is for how long. `reason` is what ended them: that of `gang.shrunk`, node-lost, or ended where
    the whole attempt has.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = (
        "job", "project", "attempt", "ranks", "reason", "held_us",
    )  # fmt: skip
    job: str
    project: str
    attempt: int
    ranks: tuple[int, ...]
    reason: str
    shares: tuple[Share, ...]  # booked milli per device, summed and sorted by device
    milli: int = 0
    held_us: int = 0


class GangReleased(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.released.v1"):
    """Every worker has gone and the devices are free: of those that `gang.placed` booked and no
    `workers.released` gave back. `held_us` is how long they were booked.

    `again` says that the job goes back to wait with a new attempt, because of `reason`: at once, or
    when it has rested until `rests_until_us`. Of its role `outgrown_role` the kinds `outgrown` had
    too little memory and are not asked for any more.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "held_us", "again", "reason")
    job: str
    project: str
    attempt: int
    shares: tuple[Share, ...]  # booked milli per device, summed and sorted by device
    milli: int = 0
    held_us: int = 0
    again: bool = False
    reason: str = ""
    rests_until_us: int = 0
    outgrown_role: str = ""
    outgrown: tuple[Accelerator, ...] = ()


class SearchSuspended(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="search.suspended.v1"
):
    """A turn ended for its number of steps: the search for whom to stop goes on with `action` for
    `job` in the next. Empty when it has come to its end.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "search"
    action: str = ""
    job: str = ""


class GuardTripped(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="guard.tripped.v1"):
    """The log refused to book a device above its capacity: an alarm, never a routine.

    The device takes no more work until an operator has looked.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "device/{device}"
    device: str
    job: str
    attempt: int
