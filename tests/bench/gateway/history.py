"""A log from before the measurement: nodes that are all in use, jobs that ended, jobs that live.

Rule: the same events that the services would have appended, in the same order for each job, so that
each of them goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.events import Event, Header, encode, stream_of, tag_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.attempts import AttemptExited, AttemptStarted
from headrace.events.gangs import Act, GangPlaced, GangReleased, Share, Worker
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished, JobRequested, JobStarted
from headrace.events.nodes import Device, NodeJoined
from headrace.events.queues import Queue, QueueConfigured
from headrace.store.interface import Head, NewEvent, Stored
from headrace.store.postgres import PostgresStore

NODES, GPUS = 1_000, 8
FINISHED, LIVE = 10_000, 1_000
RUNNING = LIVE * 3 // 4  # of the live ones: on all the GPUs there are, a node each or two
PROJECTS = ("vision", "speech", "ads", "search")
BATCH = 256
SERVICE, HOLDER = "placement", "bench"

INCARNATION = "i"  # of every agent
ADDRESS = "10.0.0.1"
ONE = Gang(accelerators=(Accelerator(milli=1000),))
WHOLE = Gang(accelerators=(Accelerator(milli=GPUS * 1000),))


class Writer:
    """Appends to a log of ours, as whoever owns the events. Raises what the store raises."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._epoch = 0
        self._requested_at: dict[str, int] = {}  # by job
        self._last: dict[str, int] = {}  # event, by job
        self.head: Head | None = None

    async def close(self) -> None:
        """Let the service itself write on."""
        await self._store.resign(SERVICE, HOLDER, self._epoch)

    async def append(self, events: list[Event]) -> list[Stored]:
        """All of them, in one batch."""
        if self.head is None:
            term = await self._store.lead(SERVICE, HOLDER, 3_600.0)
            assert term is not None
            self._epoch, self.head = term.epoch, await self._store.head()
        new = [self._new(event, self.head.position + i) for i, event in enumerate(events, 1)]
        done = await self._store.append(
            SERVICE, self._epoch, self.head.position, self.head.hash, new
        )
        self.head = await self._store.head()
        return list(done.events)

    def _new(self, event: Event, position: int) -> NewEvent:
        """Caused by the event of the job that came before; some name the position of its request."""
        job, project = getattr(event, "job", ""), getattr(event, "project", "")
        if isinstance(event, JobRequested):
            self._requested_at[job] = position
        if isinstance(event, JobAdmitted | GangPlaced):
            event = msgspec.structs.replace(event, requested_at=self._requested_at[job])
        caused_by, self._last[job] = self._last.get(job, 0), position
        header = Header(actor="ada", project=project, correlation=job, causation=caused_by)
        return NewEvent(
            stream=stream_of(event),
            type=tag_of(event),
            project=project,
            header=encode(header),
            data=encode(event),
        )


async def write(writer: Writer) -> int:
    """Fill the log; how many events it has then."""
    batch: list[Event] = []
    for event in _all():
        batch.append(event)
        if len(batch) == BATCH:
            await writer.append(batch)
            batch = []
    await writer.append(batch)
    assert writer.head is not None
    return writer.head.position


def live(job: str, number: int) -> Iterator[Event]:
    """A job up to where it runs, on the node and one device of its number."""
    project = _project(number)
    yield from _admitted(job, project, number, ONE)
    yield from _placed(job, project, (_worker(0, number % NODES, gpus=1),))


def node_name(number: int) -> str:
    """What the node of this number is called."""
    return f"rack-{number:04d}"


def _all() -> Iterator[Event]:
    for name in PROJECTS:
        yield QueueConfigured(name=name, queue=Queue(queue=name, kind="project"), change="created")
    for number in range(NODES):
        yield _node(number)
    for number in range(FINISHED):
        yield from _finished(f"old-{number:05d}", number)
    for number in range(RUNNING):
        yield from _running(f"live-{number:04d}", number)
    for number in range(RUNNING, LIVE):
        yield from _admitted(f"live-{number:04d}", _project(number), number, WHOLE)


def _running(job: str, number: int) -> Iterator[Event]:
    """On all the GPUs of the node of its number, and of one more if there are more nodes."""
    project, nodes = _project(number), range(number, NODES, RUNNING)
    gang = msgspec.structs.replace(WHOLE, nodes=len(nodes))
    yield from _admitted(job, project, number, gang)
    workers = tuple(_worker(rank, node, gpus=GPUS) for rank, node in enumerate(nodes))
    yield from _placed(job, project, workers)


def _admitted(job: str, project: str, number: int, gang: Gang) -> Iterator[Event]:
    named = {"job": job, "project": project, "name": "train", "user": f"user{number % 40}"}
    yield JobRequested(**named, gang=gang, launch=b"s" * 300, launch_key="k1", preemptible=False)
    yield JobAdmitted(**named, gang=gang, requested_at=0, priority=50, preemptible=False)
    yield JobEligible(job=job, project=project)


def _placed(job: str, project: str, workers: tuple[Worker, ...]) -> Iterator[Event]:
    of = {"job": job, "project": project, "attempt": 1}
    act = Act(rule="binpack", numbers={"score": 7, "free": 3})
    milli = sum(share.milli for worker in workers for share in worker.devices)
    yield GangPlaced(**of, workers=workers, requested_at=0, milli=milli, act=act)
    for worker in workers:
        yield AttemptStarted(
            **of, rank=worker.rank, node=worker.node, incarnation=INCARNATION, report=1
        )
    yield JobStarted(**of, waited_us=2_000_000)


def _finished(job: str, number: int) -> Iterator[Event]:
    yield from live(job, number)
    of = {"job": job, "project": _project(number), "attempt": 1}
    worker = _worker(0, number % NODES, gpus=1)
    yield AttemptExited(
        **of, rank=0, node=worker.node, incarnation=INCARNATION, report=2, reason="exited"
    )
    yield GangReleased(**of, shares=worker.devices, milli=1000, held_us=4_000_000)
    yield JobFinished(**of, outcome="succeeded", ran_us=3_000_000)


def _project(number: int) -> str:
    return PROJECTS[number % len(PROJECTS)]


def _worker(rank: int, node: int, *, gpus: int) -> Worker:
    shares = tuple(Share(device=f"GPU-{node}-{index}", milli=1000) for index in range(gpus))
    return Worker(rank=rank, node=node_name(node), address=ADDRESS, devices=shares)


def _node(number: int) -> Event:
    devices = tuple(
        Device(
            device=f"GPU-{number}-{index}",
            index=index,
            model="H100-80GB",
            memory_bytes=80_000_000_000,
            kind="simulated",
        )
        for index in range(GPUS)
    )
    return NodeJoined(
        node=node_name(number),
        host="head",
        address=ADDRESS,
        boot="b",
        incarnation=INCARNATION,
        public_key="",
        devices=devices,
        cpu_milli=64_000,
        memory_bytes=512_000_000_000,
    )
