"""Jobs: asked for, admitted or refused, held or eligible, started, finished.

Rule: `job.requested` keeps the scheduling fields in clear and everything that runs (`command`,
`env`, `setup`) sealed in `launch`; no decider ever opens it.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.asked import Dependency, Gang, Objective, Retry, Workspace
from headrace.events.base import Decision, Fact, Refusal


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job saves itself: its processes get `signal` (a name without SIG) and `grace_us` to do
    so and end.
    """

    signal: str
    grace_us: int


class JobRequested(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="job.requested.v1"):
    """A job file arrived and was understood; nothing has been decided about it yet.

    `job` is the id the shell drew. `launch` is the sealed `Launch`, under the project key
    `launch_key`. `trials` holds the parameters of a sweep's trials or an array's indexes, each a
    mapping of names to strings, drawn by the shell; empty for a single job. `protected_minimum`:
    only what an elastic gang has above its minimum may be taken from it. `bundle` is the SHA-256 of
    the folder that travels with it, as its manifest has it, `inputs` the jobs whose outputs it needs.
    `after` names jobs as the user did. The job file was laid over the `template` that stands at
    position `template_at`, from which `template_fields` came; everything here is of the two together.
    It came under the idempotency key `key`, by which others may name it.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "name", "user")
    job: str
    project: str
    name: str
    user: str
    gang: Gang
    launch: bytes
    launch_key: str
    priority: str = "medium"
    preemptible: bool = True
    max_duration_us: int = 0
    replace_after_us: int = 0
    secrets: tuple[str, ...] = ()
    trials: tuple[dict[str, str], ...] = ()
    trials_parallel: int = 0
    stop_after_failures: int = 0
    kind_of_group: str = ""  # "sweep" or "array" when `trials` is set
    protected_minimum: bool = False
    bundle: str = ""
    retry: Retry = Retry()
    checkpoint: Checkpoint | None = None
    inputs: tuple[str, ...] = ()
    after: tuple[Dependency, ...] = ()
    workspace: Workspace | None = None
    objective: Objective | None = None
    template: str = ""
    template_at: int = 0
    template_fields: tuple[str, ...] = ()
    key: str = ""


class JobAdmitted(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.admitted.v1"):
    """The job may wait for GPUs. Carries all that quota and placement need to know of it.

    `requested_at` is the position of its `job.requested`. `max_duration_us` is the job's own, else
    what its project or its pool says; `replace_after_us` after how much silence of a node its
    workers there are run elsewhere (0: never). A sweep or array is admitted once as a `group` of `tasks` jobs, then each task on its own with `group` and `index` set; a task's id is
    `<group>/<index>`. `after` has the full ids of those it waits for that had not ended yet. A
    workspace that is not used for `idle_us` ends (0: never). `objective` is what a group's tasks are
    compared by. `template` and `template_at` as in its request.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "name", "user", "warning")
    job: str
    project: str
    name: str
    user: str
    gang: Gang
    requested_at: int
    priority: int
    preemptible: bool = True
    max_duration_us: int = 0
    replace_after_us: int = 0
    group: str = ""
    index: int = 0
    tasks: int = 0
    tasks_parallel: int = 0
    stop_after_failures: int = 0
    warning: str = ""
    protected_minimum: bool = False
    retry: Retry = Retry()
    checkpoint: Checkpoint | None = None
    after: tuple[Dependency, ...] = ()
    idle_us: int = 0
    objective: Objective | None = None
    template: str = ""
    template_at: int = 0


class JobRefused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.refused.v1"):
    """The job will not run, and why, and what would be accepted."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "refusal")
    job: str
    project: str
    refusal: Refusal


class JobCancelRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="job.cancel_requested.v1"
):
    """Somebody asked for a job to end. `job` may name a job nobody knows. `now`: without asking its
    workers first.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project")
    job: str
    project: str
    user: str
    now: bool = False


class JobCancelling(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.cancelling.v1"
):
    """The job is to end now; placement stops what runs. A group's tasks are named one by one.
    `message` says more about the reason when there is more to say. `now`: its workers are not asked
    first.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "user", "message")
    job: str
    project: str
    user: str = ""
    reason: str = "cancelled"
    message: str = ""
    now: bool = False


class JobCancelRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.cancel_refused.v1"
):
    """There is nothing to cancel: the job is unknown or has ended."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "refusal")
    job: str
    project: str
    refusal: Refusal


class JobEnterRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="job.enter_requested.v1"
):
    """Somebody who did not submit the job wants into it. `way` is exec, attach or port-forward;
    `what` the program's name or the port, never its arguments: these may be secret.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    job: str
    project: str
    user: str
    way: str
    rank: int = 0
    what: str = ""


class JobEntered(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.entered.v1"):
    """`user`, who did not submit the job, may use this way into it, and is about to."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "user", "way", "rank", "what")
    job: str
    project: str
    user: str
    way: str
    rank: int = 0
    what: str = ""


class JobEnterRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.enter_refused.v1"
):
    """There is no way in for this user, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "user", "refusal")
    job: str
    project: str
    user: str
    refusal: Refusal


class JobEligible(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.eligible.v1"):
    """The job may compete for GPUs from now on."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project")
    job: str
    project: str


class JobHeld(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.held.v1"):
    """The job may not compete yet, and what has to change first."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "reason")
    job: str
    project: str
    reason: str


class JobRetries(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.retries.v1"):
    """The job has rested after an attempt that ended, and competes for GPUs again. `tries` is how
    many of the attempts that it may have are used up.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "tries")
    job: str
    project: str
    tries: int = 0


class JobStarted(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.started.v1"):
    """Every worker of the attempt runs. `waited_us` counts from admission to the first start."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "waited_us")
    job: str
    project: str
    attempt: int
    waited_us: int = 0


class JobFinished(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.finished.v1"):
    """The job has ended for good: the one terminal event of an admitted job.

    `outcome` is succeeded, failed or cancelled. `reason` says why when it did not succeed: error, oom
    (memory of its nodes), out-of-memory (of a GPU), timeout, cancelled, node-lost, device-faulty,
    start-failed, disk-full (of a node, each time it was tried), setup, ports-taken, dependency, idle,
    erased. `exit_code` is that of the worker whose end tells why, the `rank` on `node`: the first
    that failed, not those that ended because of it; 128+N for signal N; `process` is which of that worker's processes (-1: none by itself). `ran_us` is the time
    from the last attempt's start to its end.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = (
        "job", "project", "attempt", "outcome", "reason", "message", "exit_code", "waited_us",
        "ran_us", "rank", "node",
    )  # fmt: skip
    job: str
    project: str
    outcome: str
    attempt: int = 0
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    waited_us: int = 0
    ran_us: int = 0
    rank: int = 0
    node: str = ""
    process: int = -1
