"""A log that a gateway reads at its start: nodes, jobs that ended, jobs that live.

Rule: the same events that the services would have appended, in the same order for each job.
"""

from __future__ import annotations

from collections.abc import Iterator

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
WAITING = LIVE // 4  # of the live ones
PROJECTS = ("vision", "speech", "ads", "search")
BATCH = 256
SERVICE = "placement"

ONE = Gang(accelerators=(Accelerator(milli=1000),))


class Writer:
    """Appends to a log of ours, as whoever owns the events. Raises what the store raises."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._epoch = 0
        self.head: Head | None = None

    async def append(self, events: list[Event]) -> list[Stored]:
        """All of them, in one batch."""
        if self.head is None:
            term = await self._store.lead(SERVICE, "bench", 3_600.0)
            assert term is not None
            self._epoch, self.head = term.epoch, await self._store.head()
        new = [_new(event) for event in events]
        done = await self._store.append(
            SERVICE, self._epoch, self.head.position, self.head.hash, new
        )
        self.head = await self._store.head()
        return list(done.events)


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
    """A job up to where it runs, on the node and device of its number."""
    project = PROJECTS[number % len(PROJECTS)]
    named = {"job": job, "project": project, "name": "train", "user": f"user{number % 40}"}
    yield JobRequested(**named, gang=ONE, launch=b"s" * 300, launch_key="k1")
    yield JobAdmitted(**named, gang=ONE, requested_at=1, priority=50)
    yield from _placed(job, project, number)


def _all() -> Iterator[Event]:
    for name in PROJECTS:
        yield QueueConfigured(name=name, queue=Queue(queue=name, kind="project"), change="created")
    for number in range(NODES):
        yield _node(number)
    for number in range(FINISHED):
        yield from _finished(f"old-{number:05d}", number)
    for number in range(LIVE):
        events = live(f"live-{number:04d}", number)
        if number >= LIVE - WAITING:
            yield next(events)
            yield next(events)
        else:
            yield from events


def _placed(job: str, project: str, number: int) -> Iterator[Event]:
    of = {"job": job, "project": project, "attempt": 1}
    yield JobEligible(job=job, project=project)
    share = Share(device=f"GPU-{number % NODES}-0", milli=1000)
    node = f"n{number % NODES}"
    worker = Worker(rank=0, node=node, address="10.0.0.1", devices=(share,))
    act = Act(rule="binpack", numbers={"score": 7, "free": 3})
    yield GangPlaced(**of, workers=(worker,), requested_at=1, milli=1000, act=act)
    yield AttemptStarted(**of, rank=0, node=node, incarnation="i", report=1)
    yield JobStarted(**of, waited_us=2_000_000)


def _finished(job: str, number: int) -> Iterator[Event]:
    yield from live(job, number)
    of = {"job": job, "project": PROJECTS[number % len(PROJECTS)], "attempt": 1}
    node = f"n{number % NODES}"
    yield AttemptExited(**of, rank=0, node=node, incarnation="i", report=2, reason="exited")
    share = Share(device=f"GPU-{number % NODES}-0", milli=1000)
    yield GangReleased(**of, shares=(share,), milli=1000, held_us=4_000_000)
    yield JobFinished(**of, outcome="succeeded", ran_us=3_000_000)


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
        node=f"n{number}",
        host="head",
        address="10.0.0.1",
        boot="b",
        incarnation="i",
        public_key="",
        devices=devices,
        cpu_milli=64_000,
        memory_bytes=512_000_000_000,
    )


def _new(event: Event) -> NewEvent:
    project = getattr(event, "project", "")
    header = Header(actor="ada", project=project, correlation=getattr(event, "job", ""))
    return NewEvent(
        stream=stream_of(event),
        type=tag_of(event),
        project=project,
        header=encode(header),
        data=encode(event),
    )
