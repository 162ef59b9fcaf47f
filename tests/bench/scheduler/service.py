"""What placement's own turns cost, with its events, acts and explanations: the decider itself.

Rule: the fleet is full, every project holds as much as any other, and what waits is of many kinds.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.events import Event, encode
from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import GangPlaced
from headrace.events.jobs import JobAdmitted, JobEligible
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.queues import Allowance, Queue, QueueConfigured
from headrace.events.scheduling import Scheduling, SchedulingConfigured
from headrace.placement.bench import History, fleet, report
from headrace.placement.explain_rules import explain
from headrace.placement.following import world_of

PROJECTS = 30
USERS = 20  # of a project that they share
KINDS = 10  # of each project's waiting jobs
GPUS = 8


def full(nodes: int, pending: int) -> History:
    """A fleet with a job on every node, and jobs of PROJECTS x KINDS kinds that wait."""
    history = History()
    fleet(history, nodes, GPUS)
    for number in range(PROJECTS):
        queue = Queue(queue=f"p{number}", kind="project")
        history.add(QueueConfigured(name=queue.queue, queue=queue, change="created"))
    for number in range(nodes):
        submit(history, f"run-{number}", number % PROJECTS, milli=GPUS * 1000, cpu_milli=1000)
    while history.decide():
        pass
    for number in range(pending):
        kind = number // PROJECTS % KINDS
        milli = (1 + kind % GPUS) * 1000
        submit(history, f"wait-{number}", number % PROJECTS, milli=milli, cpu_milli=1000 + kind)
    world_of(history.state)  # no turn hears of so many at once
    return history


def of_one_project(nodes: int, pending: int) -> History:
    """A full fleet of one project, in which USERS users have jobs of KINDS kinds that wait."""
    history = History()
    fleet(history, nodes, GPUS)
    queue = Queue(queue="p0", kind="project")
    history.add(QueueConfigured(name="p0", queue=queue, change="created"))
    for number in range(nodes):
        submit(history, f"run-{number}", 0, milli=GPUS * 1000, cpu_milli=1000)
    while history.decide():
        pass
    for number in range(pending):
        milli = (1 + number % GPUS) * 1000
        user = f"u{number % USERS}"
        submit(history, f"wait-{number}", 0, milli=milli, cpu_milli=1000, user=user)
    world_of(history.state)  # no turn hears of so many at once
    return history


def shared() -> Iterator[tuple[str, Event]]:
    """Its users share it equally, and then do not, by what the document says."""
    for users_equal in (True, False):
        queue = Queue(queue="p0", kind="project", users_equal=users_equal)
        name = "users: equal" if users_equal else "users: as they come"
        yield name, QueueConfigured(name="p0", queue=queue, change="updated")


def documents() -> Iterator[tuple[str, Event]]:
    """What administrators change, one after the other, by what it says."""
    rationed = {"H100": Allowance(quota_milli=GPUS * 1000)}
    for name, fields in (
        ("a queue's limit", {"limit_milli": GPUS * 1000}),
        ("a queue's quota", {"quota_milli": GPUS * 1000}),
        ("a queue's quota of a type", {"quota_milli": GPUS * 1000, "per_type": rationed}),
    ):
        queue = msgspec.convert({"queue": "p3", "kind": "project", **fields}, Queue)
        yield name, QueueConfigured(name=queue.queue, queue=queue, change="updated")
    for placement in ("binpack", "spread"):
        pool = Pool(pool="train", label="pool", value="train", placement=placement)
        yield f"a pool that {placement}s", PoolConfigured(name="train", pool=pool, change="updated")
    scheduling = Scheduling(usage_strength_milli=1000)
    yield "how turns are taken", SchedulingConfigured(scheduling=scheduling, change="created")


def submit(
    history: History, job: str, project: int, *, milli: int, cpu_milli: int, user: str = "bench"
) -> None:
    """One job, admitted and eligible."""
    name = f"p{project}"
    gang = Gang(accelerators=(Accelerator(milli=milli),), cpu_milli=cpu_milli)
    admitted = JobAdmitted(
        job=job, project=name, name=job, user=user, gang=gang, requested_at=history.position,
        priority=40,
    )  # fmt: skip
    history.add(admitted)
    history.add(JobEligible(job=job, project=name))


def end(history: History, job: str) -> None:
    """The job's workers have gone, and its devices are free."""
    run = history.state.jobs[job].run
    assert run is not None  # it runs
    placed = GangPlaced(
        job=job, project=history.state.jobs[job].project, attempt=run.attempt, workers=run.workers,
        requested_at=0, act=None,
    )  # type: ignore[arg-type]  # fmt: skip
    report(history, placed)


def written(history: History) -> int:
    """The bytes of what one turn decides."""
    return sum(len(encode(draft.event)) for draft in history.decide())


def explained(history: History, job: str) -> str:
    """Why the job waits."""
    found = explain(history.state, job, history.now_us)
    assert found is not None  # it waits
    return found.rule
