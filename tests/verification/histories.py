"""Histories to check: a small good one, and ways to make bad ones from it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.events import (
    Decision,
    Entry,
    Event,
    Header,
    encode,
    job_of,
    project_of,
    stream_of,
    tag_of,
)
from headrace.events.asked import Accelerator, Gang
from headrace.events.attempts import AttemptExited, AttemptStarted
from headrace.events.gangs import (
    Act,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    Share,
    Worker,
    WorkersReleased,
)
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished, JobRequested, JobStarted
from headrace.events.nodes import Device, NodeJoined
from headrace.events.platform import UsageAccounted
from headrace.events.queues import Queue, QueueConfigured
from headrace.store.interface import GENESIS, NewEvent, Stored, chain
from headrace.verification import Checker, Violation

P = "vision"
ACT = Act(rule="fits")


def requested(job: str = "a", **more) -> JobRequested:
    return JobRequested(
        job=job, project=P, name=job, user="u", gang=gang(), launch=b"", launch_key="k", **more
    )


def gang(nodes: int = 1, most: int = 0) -> Gang:
    return Gang(nodes=nodes, nodes_max=most, accelerators=(Accelerator(milli=1000),))


def admitted(job: str = "a", nodes: int = 1, most: int = 0, **more) -> JobAdmitted:
    values = {"requested_at": 1, "priority": 50, **more}
    return JobAdmitted(job=job, project=P, name=job, user="u", gang=gang(nodes, most), **values)


def eligible(job: str = "a") -> JobEligible:
    return JobEligible(job=job, project=P)


def joined(node: str = "n1", devices: Iterable[str] = ("g1", "g2"), boot: str = "b1") -> NodeJoined:
    found = tuple(
        Device(device=d, index=i, model="H100-80GB", memory_bytes=80 * 10**9)
        for i, d in enumerate(devices)
    )
    return NodeJoined(
        node=node,
        host=node,
        address="::1",
        boot=boot,
        incarnation="i1",
        public_key="",
        devices=found,
    )


def placed(job: str = "a", attempt: int = 1, where: str = "n1/g1", milli: int = 1000) -> GangPlaced:
    """`where` is `node/device node/device …`, a worker each."""
    places = [place.split("/") for place in where.split()]
    workers = tuple(
        Worker(rank=i, node=n, address="::1", devices=(Share(device=d, milli=milli),))
        for i, (n, d) in enumerate(places)
    )
    total = milli * len(workers)
    return GangPlaced(
        job=job, project=P, attempt=attempt, workers=workers, requested_at=1, milli=total, act=ACT
    )


def grown(
    job: str = "a", attempt: int = 1, where: str = "n1/g2", first: int = 1, milli: int = 1000
) -> GangGrown:
    """More workers, from the rank `first` on."""
    workers = tuple(
        msgspec.structs.replace(worker, rank=worker.rank + first)
        for worker in placed(where=where, milli=milli).workers
    )
    total = milli * len(workers)
    return GangGrown(job=job, project=P, attempt=attempt, workers=workers, milli=total, act=ACT)


def shrunk(*ranks: int, job: str = "a", attempt: int = 1) -> GangShrunk:
    return GangShrunk(
        job=job, project=P, attempt=attempt, ranks=ranks, reason="reclaimed", gainer="b", act=ACT
    )


def given_back(
    *ranks: int, job: str = "a", attempt: int = 1, devices: str = "g2", milli: int = 1000
) -> WorkersReleased:
    shares = tuple(Share(device=d, milli=milli) for d in devices.split())
    total = milli * len(shares)
    return WorkersReleased(
        job=job, project=P, attempt=attempt, ranks=ranks, reason="reclaimed", shares=shares,
        milli=total, held_us=5,
    )  # fmt: skip


def started(job: str = "a", attempt: int = 1, rank: int = 0, report: int = 1) -> AttemptStarted:
    return AttemptStarted(
        job=job, project=P, attempt=attempt, rank=rank, node="n1", incarnation="i1", report=report
    )


def exited(
    job: str = "a", attempt: int = 1, rank: int = 0, report: int = 2, **how
) -> AttemptExited:
    return AttemptExited(
        job=job, project=P, attempt=attempt, rank=rank, node="n1", incarnation="i1", report=report,
        **({"reason": "exited"} | how),
    )  # fmt: skip


def begun(job: str = "a", attempt: int = 1) -> JobStarted:
    return JobStarted(job=job, project=P, attempt=attempt)


def released(
    job: str = "a", attempt: int = 1, devices: str = "g1", milli: int = 1000, **more
) -> GangReleased:
    shares = tuple(Share(device=d, milli=milli) for d in devices.split())
    total = milli * len(shares)
    return GangReleased(
        job=job, project=P, attempt=attempt, shares=shares, milli=total, held_us=5, **more
    )


def finished(job: str = "a", attempt: int = 1, outcome: str = "succeeded") -> JobFinished:
    return JobFinished(job=job, project=P, outcome=outcome, attempt=attempt)


def accounted(job: str = "a", attempt: int = 1) -> UsageAccounted:
    return UsageAccounted(job=job, project=P, attempt=attempt, milli=1000, held_us=5)


def queue(name: str = P, **values) -> QueueConfigured:
    configured = Queue(queue=name, kind="project", **values)
    return QueueConfigured(name=name, queue=configured, change="created")


ADMITTED = (requested(), joined(), admitted(), eligible())
RUNNING = (*ADMITTED, placed(), started(), begun())
GOOD = (*RUNNING, exited(), released(), finished(), accounted())


def entries(events: Iterable[Event | tuple[Event, Header]]) -> list[Entry]:
    """The events as a log holds them: each decision made on everything before it, unless a header
    says otherwise."""
    made = []
    for position, item in enumerate(events, 1):
        event, header = item if isinstance(item, tuple) else (item, None)
        if header is None and isinstance(event, Decision):
            decided_at_us = position * 1_000
            header = Header(basis=position - 1, decided_at_us=decided_at_us, count=1)
        recorded_at_us = max(position * 1_000, header.decided_at_us if header else 0)
        made.append(
            Entry(
                position=position,
                recorded_at_us=recorded_at_us,
                header=header or Header(),
                event=event,
            )
        )
    return made


def violations(*events: Event | tuple[Event, Header]) -> list[Violation]:
    """What the checker says of this history."""
    checker = Checker()
    return [v for entry in entries(events) for v in checker.check(entry)]


def broken(*events: Event | tuple[Event, Header]) -> list[str]:
    """The names of the invariants that this history breaks."""
    return [violation.invariant for violation in violations(*events)]


def stored(made: Iterable[Entry]) -> list[Stored]:
    """The entries as bytes, chained."""
    hash_, log = GENESIS, []
    for entry in made:
        about = {"project": project_of(entry.event), "correlation": job_of(entry.event)}
        header = encode(msgspec.structs.replace(entry.header, **about))
        data = encode(entry.event)
        event = NewEvent(
            stream=stream_of(entry.event),
            type=tag_of(entry.event),
            project=project_of(entry.event),
            header=header,
            data=data,
        )
        hash_ = chain(hash_, entry.position, entry.recorded_at_us, event)
        log.append(
            Stored(
                position=entry.position,
                recorded_at_us=entry.recorded_at_us,
                stream=event.stream,
                type=event.type,
                project=event.project,
                header=header,
                data=data,
                hash=hash_,
            )
        )
    return log
