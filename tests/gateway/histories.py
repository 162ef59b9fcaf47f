"""Short histories of the log, as lists of events, and the projection they fold into."""

from __future__ import annotations

from typing import Any

from headrace.events import Entry, Event, Header
from headrace.events.asked import Accelerator, Gang
from headrace.events.attempts import AttemptExited, AttemptStarted
from headrace.events.gangs import Act, GangEvicted, GangPlaced, GangReleased, Share, Worker
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished, JobRequested, JobStarted
from headrace.events.nodes import Device, NodeJoined
from headrace.events.queues import Queue, QueueConfigured
from headrace.gateway.evolve import evolve
from headrace.gateway.projection import Projection

SECOND_US = 1_000_000
HALF = Gang(accelerators=(Accelerator(milli=500),))


def folded(*events: Event, into: Projection | None = None) -> Projection:
    """The projection after these events, one a second."""
    projection = into or Projection()
    for event in events:
        position = projection.position + 1
        evolve(
            projection,
            Entry(
                position=position,
                recorded_at_us=position * SECOND_US,
                header=Header(),
                event=event,
            ),
        )
    return projection


def project_made(name: str) -> Event:
    return QueueConfigured(name=name, queue=Queue(queue=name, kind="project"), change="created")


def requested(job: str = "hello-a", project: str = "vision", gang: Gang = HALF, **more) -> Event:
    more = {"user": "ada", **more}
    name = job.rpartition("-")[0] or job
    return JobRequested(
        job=job,
        project=project,
        name=name,
        gang=gang,
        launch=b"sealed",
        launch_key="k1",
        **more,
    )


def admitted(job: str = "hello-a", project: str = "vision", gang: Gang = HALF, **more) -> Event:
    more = {"user": "ada", **more}
    name = job.rpartition("-")[0] or job
    return JobAdmitted(
        job=job,
        project=project,
        name=name,
        gang=gang,
        requested_at=1,
        priority=50,
        **more,
    )


def eligible(job: str = "hello-a", project: str = "vision") -> Event:
    return JobEligible(job=job, project=project)


def placed(job: str = "hello-a", project: str = "vision", attempt: int = 1, milli: int = 500):
    worker = Worker(rank=0, node="n1", address="::1", devices=(Share(device="GPU-0", milli=milli),))
    return GangPlaced(
        job=job,
        project=project,
        attempt=attempt,
        workers=(worker,),
        requested_at=1,
        milli=milli,
        act=Act(rule="binpack", numbers={"score": 7}),
    )


def worker_started(job: str = "hello-a", project: str = "vision", attempt: int = 1) -> Event:
    return AttemptStarted(
        job=job, project=project, attempt=attempt, rank=0, node="n1", incarnation="i", report=1
    )


def worker_exited(job: str = "hello-a", project: str = "vision", attempt: int = 1, **more) -> Event:
    return AttemptExited(
        job=job,
        project=project,
        attempt=attempt,
        rank=0,
        node="n1",
        incarnation="i",
        report=2,
        reason="exited",
        **more,
    )


def started(job: str = "hello-a", project: str = "vision", attempt: int = 1) -> Event:
    return JobStarted(job=job, project=project, attempt=attempt, waited_us=2 * SECOND_US)


def evicted(job: str = "hello-a", project: str = "vision", attempt: int = 1) -> Event:
    act = Act(rule="reclaim-over-quota", numbers={"freed": 500})
    return GangEvicted(
        job=job, project=project, attempt=attempt, reason="reclaimed", gainer="big-b", act=act
    )


def released(
    job: str = "hello-a", project: str = "vision", attempt: int = 1, *, again: bool = False
) -> Event:
    return GangReleased(
        job=job,
        project=project,
        attempt=attempt,
        shares=(Share(device="GPU-0", milli=500),),
        milli=500,
        held_us=4 * SECOND_US,
        again=again,
    )


def finished(
    job: str = "hello-a", project: str = "vision", outcome: str = "succeeded", **more
) -> Event:
    told = {"attempt": 1, "ran_us": 3 * SECOND_US, **more}
    return JobFinished(job=job, project=project, outcome=outcome, **told)


def joined(node: str = "n1", gpus: int = 2, **said: Any) -> Event:
    devices = tuple(
        Device(
            device=f"GPU-{index}",
            index=index,
            model="H100-80GB",
            memory_bytes=80_000_000_000,
            kind="simulated",
        )
        for index in range(gpus)
    )
    return NodeJoined(
        **said,
        node=node,
        host="head",
        address="127.0.0.1",
        boot="b",
        incarnation="i",
        public_key="",
        devices=devices,
        cpu_milli=8000,
        memory_bytes=16_000_000_000,
    )


RUN = (requested(), admitted(), eligible(), placed(), worker_started(), started())
SUCCEEDED = (*RUN, worker_exited(), released(), finished())
