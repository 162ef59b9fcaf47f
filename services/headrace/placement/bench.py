"""How fast placement folds and decides: `python -m headrace.placement.bench`.

Rule: prints; asserts nothing. The log here is a list, so that only `evolve` and `decide` are timed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from headrace.decider import Draft
from headrace.events import Entry, Event, Header
from headrace.events.asked import Accelerator, Gang
from headrace.events.attempts import AttemptExited, AttemptStarted
from headrace.events.gangs import GangPlaced
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished
from headrace.events.nodes import Device, NodeJoined
from headrace.events.queues import Queue, QueueConfigured
from headrace.placement.decide import DECIDER
from headrace.placement.state import State

GIB = 2**30
SECOND_US = 1_000_000


class History:
    """A log in memory in front of one state."""

    def __init__(self) -> None:
        self.state: State = DECIDER.initial()
        self.position = 0
        self.now_us = SECOND_US
        self.reports = 0

    def add(self, event: Event) -> None:
        """Append and fold one event."""
        self.position += 1
        self.now_us += 10
        DECIDER.evolve(
            self.state,
            Entry(
                position=self.position,
                recorded_at_us=self.now_us,
                header=Header(),
                event=event,
            ),
        )

    def decide(self) -> Sequence[Draft]:
        """One turn: decide, append, fold."""
        drafts = DECIDER.decide(self.state, self.now_us)
        for draft in drafts:
            self.add(draft.event)
        return drafts


def fleet(history: History, nodes: int, gpus: int) -> None:
    """`nodes` machines of `gpus` GPUs, and the project `default`."""
    for number in range(nodes):
        devices = tuple(
            Device(device=f"GPU-{number}-{i}", index=i, model="H100-80GB", memory_bytes=80 * GIB)
            for i in range(gpus)
        )
        joined = NodeJoined(
            node=f"n{number}",
            host=f"host{number}",
            address=f"10.0.{number // 250}.{number % 250}",
            boot="b",
            incarnation="i",
            public_key="",
            devices=devices,
            cpu_milli=96_000,
            memory_bytes=1024 * GIB,
        )
        history.add(joined)
    queue = Queue(queue="default", kind="project", quota_milli=0)
    history.add(QueueConfigured(name="default", queue=queue, change="created"))


def submit(history: History, number: int, milli: int = 1000) -> None:
    """One job, admitted and eligible."""
    job = f"job-{number}"
    admitted = JobAdmitted(
        job=job,
        project="default",
        name="job",
        user="bench",
        gang=Gang(accelerators=(Accelerator(milli=milli),), cpu_milli=1000, memory_bytes=GIB),
        requested_at=history.position,
        priority=40,
    )
    history.add(admitted)
    history.add(JobEligible(job=job, project="default"))


def report(history: History, placed: GangPlaced) -> None:
    """Its workers started and exited."""
    for worker in placed.workers:
        history.reports += 1
        started = AttemptStarted(
            job=placed.job,
            project=placed.project,
            attempt=placed.attempt,
            rank=worker.rank,
            node=worker.node,
            incarnation="i",
            report=history.reports,
        )
        history.add(started)
        known = [name for name in AttemptExited.__struct_fields__ if hasattr(started, name)]
        about = {name: getattr(started, name) for name in known}
        history.add(AttemptExited(**about, reason="exited"))


def steady(nodes: int, gpus: int, jobs: int, pending: int) -> tuple[int, int]:
    """Jobs finished, and microseconds it took, on a full fleet with `pending` more waiting."""
    history = History()
    fleet(history, nodes, gpus)
    for number in range(nodes * gpus + pending):
        submit(history, number)
    placed: list[GangPlaced] = []
    while drafts := history.decide():
        placed += [d.event for d in drafts if isinstance(d.event, GangPlaced)]
    began, finished, number = time.process_time_ns(), 0, 10**6
    while finished < jobs:
        for running in placed[:8]:  # what one turn hears at 200 jobs/s and 25 turns/s
            report(history, running)
            submit(history, number)
            number += 1
        del placed[:8]
        while drafts := history.decide():
            placed += [d.event for d in drafts if isinstance(d.event, GangPlaced)]
            finished += sum(1 for d in drafts if isinstance(d.event, JobFinished))
    return finished, (time.process_time_ns() - began) // 1000


def empty_turn(pending: int) -> tuple[int, int]:
    """Microseconds of a turn in which nothing changed, and of one after one more job arrived."""
    history = History()
    fleet(history, 2, 8)
    for number in range(pending):
        submit(history, number)
    while history.decide():
        pass
    began = time.process_time_ns()
    history.decide()
    empty_us = (time.process_time_ns() - began) // 1000
    submit(history, pending)
    began = time.process_time_ns()
    history.decide()
    return empty_us, (time.process_time_ns() - began) // 1000


def main() -> None:
    """Print the numbers."""
    for nodes, gpus, pending in ((2, 8, 0), (2, 8, 10_000), (100, 8, 10_000), (1000, 8, 1_000)):
        jobs, took_us = steady(nodes, gpus, 2_000, pending)
        rate = jobs * SECOND_US // max(1, took_us)
        print(
            f"{nodes} x {gpus} GPUs, {pending} waiting: {rate} jobs/s ({took_us // jobs} µs each)"
        )
    empty_us, changed_us = empty_turn(100_000)
    print(f"100000 waiting: a turn without change {empty_us} µs, after one more {changed_us} µs")


if __name__ == "__main__":
    main()
