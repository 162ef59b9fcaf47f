"""What people ask about, folded from the log: jobs, nodes, queues and who holds what.

Rule: live jobs are all kept; of those that ended the latest `ENDED_JOBS_MAX`, of which a project that
has fewer than others loses none. `evolve` alone changes it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headrace.access.directory import Directory
from headrace.client.inventory_model import PublisherRow, SecretRow, TemplateRow
from headrace.client.webhook_model import WebhookRow
from headrace.events.asked import Gang, Workspace
from headrace.events.gangs import Worker
from headrace.events.members import JoinWaiting, TokenCreated
from headrace.events.nodes import HeldWorker, NodeJoined
from headrace.events.pools import Pool
from headrace.events.queues import Queue
from headrace.events.volumes import Volume
from headrace.gateway.job_names import JobNames

TOKENS_MAX = 1_000  # join tokens that are listed; the oldest are forgotten first
ENDED_JOBS_MAX = 20_000  # jobs and tasks that ended and are still listed; older ones are in the log


class Job(msgspec.Struct, kw_only=True):
    """One job, task or group as far as the log tells. `task_states` counts a group's tasks."""

    job: str
    project: str
    name: str
    user: str
    gang: Gang
    position: int
    requested_at_us: int
    waiting_since_us: int
    state: str = "submitted"
    group: str = ""
    index: int = 0
    tasks: int = 0
    tasks_parallel: int = 0
    kind_of_group: str = ""
    task_ids: list[str] = []
    task_states: dict[str, int] = {}
    ways: dict[str, int] = {}  # of a group that is paused: how many of its tasks left how
    attempt: int = 0
    workers: tuple[Worker, ...] = ()
    leaving: tuple[int, ...] = ()  # which of its ranks are to stop while others run on
    held_milli: int = 0
    gpu_us: int = 0
    evictions: int = 0
    started_at_us: int = 0
    ended_at_us: int = 0
    waited_us: int = -1  # of every wait that is over; -1: the first is not
    ran_us: int = 0
    why: str = ""
    warning: str = ""
    exit_code: int | None = None
    bundle: str = ""
    inputs: tuple[str, ...] = ()
    outputs: dict[int, str] = {}  # of the last attempt, by rank
    checkpoints: dict[int, str] = {}  # for the next one
    workspace: Workspace | None = None
    best: str = ""  # trial of a sweep, with its value
    reported: dict[str, str] = {}  # of a task: the last words of its first worker that had any


class Node(msgspec.Struct, kw_only=True):
    """One node: what it said it has, and what was said about it."""

    joined: NodeJoined
    silent_since_us: int = 0
    change: str = ""  # cordon or fence, as long as it is in force
    faults: dict[str, str] = {}  # what happened to devices that take no work for it
    apart: str = ""  # why it does not follow this log, and what to do
    strays: tuple[HeldWorker, ...] = ()  # what runs there and was not placed there


class Token(msgspec.Struct, kw_only=True):
    """A join token, and the node of each key that proved it."""

    created: TokenCreated
    created_at_us: int
    used_by: dict[str, str] = {}
    revoked: bool = False


class ProjectUse(msgspec.Struct, kw_only=True):
    """What a project's jobs hold now and held before."""

    held_milli: int = 0
    gpu_us: int = 0


class UsageKey(NamedTuple):
    """What use is counted by; `day` counts from 1970 (UTC)."""

    day: int
    project: str
    user: str
    model: str
    pool: str
    currency: str


class Used(msgspec.Struct):
    """GPU time (µs of whole GPUs), and its cost in millionths of the currency."""

    gpu_us: int = 0
    cost_micro: int = 0


class DeviceAt(NamedTuple):
    """Where a device is, and what it is."""

    node: str
    model: str


class Projection(msgspec.Struct, kw_only=True):
    """All of it, as of `position`. `held` maps a device to the thousandths each job has of it, and
    `since` to the moment each got them.
    """

    position: int = 0
    at_us: int = 0
    live: dict[str, Job] = {}
    ended: dict[str, Job] = {}
    names: JobNames = msgspec.field(default_factory=JobNames)  # of both
    ended_of: dict[str, dict[str, None]] = {}  # the same by project, the oldest first
    nodes: dict[str, Node] = {}
    waiting: dict[str, JoinWaiting] = {}  # machines that wait for approval
    tokens: dict[str, Token] = {}  # by their public ids, the oldest first
    queues: dict[str, Queue] = {}
    deleted: dict[str, None] = {}  # queues that were, and were not made anew
    shares: dict[str, int] = {}
    use: dict[str, ProjectUse] = {}
    held: dict[str, dict[str, int]] = {}
    since: dict[str, dict[str, int]] = {}
    devices: dict[str, DeviceAt] = {}
    pools: dict[str, Pool] = {}
    volumes: dict[str, Volume] = {}
    templates: dict[tuple[str, str], TemplateRow] = {}  # by project ("": everybody's) and name
    secrets: dict[tuple[str, str], SecretRow] = {}  # by project and name
    publishers: dict[tuple[str, str], PublisherRow] = {}  # likewise
    usage: dict[UsageKey, Used] = {}  # of what was given back, the oldest days first
    services: dict[str, int] = {}
    directory: Directory = msgspec.field(default_factory=Directory)
    erased_at_us: dict[str, int] = {}  # by project, the last time
    webhooks: dict[tuple[str, str], WebhookRow] = {}  # by project and name
    documents: dict[str, int] = {}  # by stream: where what is in force was asked for

    def job(self, job_id: str) -> Job | None:
        """The job of exactly this id."""
        return self.live.get(job_id) or self.ended.get(job_id)


def move(projection: Projection, job: Job, state: str) -> None:
    """Change a job's state, and what its group counts."""
    group = projection.live.get(job.group)
    if group is not None:
        states = group.task_states
        if states.get(job.state):
            states[job.state] -= 1
        states[state] = states.get(state, 0) + 1
    job.state = state


def use_of(projection: Projection, project: str) -> ProjectUse:
    """The project's use, to be changed."""
    use = projection.use.get(project)
    if use is None:
        use = projection.use[project] = ProjectUse()
    return use
