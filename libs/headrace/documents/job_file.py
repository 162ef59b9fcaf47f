"""The job file: one Struct for the command line, REST and the bus.

Rule: a name here is the name everywhere. `read_job` takes the shape; what the values mean, and
whether they can be, is `plan`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec

from headrace.documents.refusing import DocumentError, with_line
from headrace.documents.shape import Part, Parts, shaped
from headrace.events import Refusal

JOB_FILE_BYTES_MAX = 262_144

NotYet: TypeAlias = Any  # part of the shape, refused by name until it is built
Number: TypeAlias = int | float | str  # decimals travel best as text


class Resources(Part):
    """What each node of the job is asked for. `gpus` by the GPU grammar, `gpu_memory` this much
    memory of one GPU, `cpu` in cores, `memory` with its unit, `shm` the size of a container's
    /dev/shm.
    """

    gpus: Number | list[Number] = 0
    gpu_memory: str = ""
    cpu: Number = ""
    memory: str = ""
    shm: str = ""


class RoleFile(Part):
    """Some workers of a job whose workers differ. Without a `command` they run the job's."""

    parts: ClassVar[Parts] = {"resources": Resources}

    nodes: Number = 1
    resources: Resources = msgspec.field(default_factory=Resources)
    command: str | list[str | int | float | bool] = ""
    processes_per_node: Number = 1


class ObjectiveFile(Part):
    """What trials are compared by: a `metric` that they report, of which more (`goal: max`) or less
    (`goal: min`) is better.
    """

    metric: str = ""
    goal: str = ""


class Sweep(Part):
    """The same command with other parameters each time. `method` is grid, random or list."""

    parts: ClassVar[Parts] = {"objective": ObjectiveFile}

    method: str = ""
    params: dict[str, Any] | list[dict[str, Any]] = {}
    trials: Number = ""
    seed: int | None = None
    parallel: int = 0
    stop_after_failures: int = 0
    objective: ObjectiveFile | None = None


class RetryFile(Part):
    """After which ends the job is tried again, how many attempts it has in all, and how long it rests
    before the second one; before each further one twice as long.
    """

    on: list[str] = []
    attempts: int = 3
    backoff: str = "0s"


class Topology(Part):
    """The levels whose domain all nodes of the job share: must, and rather should."""

    required: str = ""
    preferred: str = ""


class CheckpointPart(Part):
    """How the job saves itself: asked by `signal` it has `grace` to do so, into `dir`, and to end."""

    dir: str = ""
    signal: str = "USR1"
    grace: str = "60s"


class IdleFile(Part):
    """What happens to a workspace that was not used for so long."""

    span: str = msgspec.field(name="for", default="")
    action: str = "stop"


class JobFile(Part):
    """What a user asks to run, field by field as documented for job files."""

    not_yet: ClassVar[tuple[str, ...]] = (
        "schedule", "triggers", "deadline", "notify", "port", "replicas", "scale",
        "readiness", "rollout", "drain",
    )  # fmt: skip
    elsewhere: ClassVar[Mapping[str, str]] = {
        "parallel": "array: 0..99%8 for eight at a time, or sweep.parallel",
    }
    parts: ClassVar[Parts] = {
        "resources": Resources,
        "sweep": Sweep,
        "topology": Topology,
        "checkpoint": CheckpointPart,
        "retry": RetryFile,
        "idle": IdleFile,
    }
    each: ClassVar[Parts] = {"roles": RoleFile}

    type: str = "training"
    name: str = ""
    project: str = ""
    template: str = ""
    source: str = msgspec.field(name="from", default="")
    command: str | list[str | int | float | bool] = ""
    setup: str | list[str | int | float | bool] = ""
    framework: str = ""
    nodes: Number = 1
    resources: Resources = msgspec.field(default_factory=Resources)
    processes_per_node: Number = 1
    env: dict[str, str | int | float | bool | None] = {}
    secrets: list[str] = []
    workdir: str = ""
    image: str = ""
    python: str | float = ""
    volumes: list[str] = []
    outputs: list[str] = []
    array: str | int = ""
    sweep: Sweep | None = None
    priority: str = "medium"
    preemptibility: str = ""
    pools: list[str] = []
    topology: Topology = msgspec.field(default_factory=Topology)
    max_duration: str = ""
    checkpoint: CheckpointPart | None = None
    on_disconnect: str | dict[str, str] = "keep"
    allow_plain_secret: bool = False
    retry: RetryFile | None = None
    after: list[dict[str, str]] = []
    schedule: NotYet = None
    triggers: NotYet = None
    deadline: NotYet = None
    notify: NotYet = None
    roles: dict[str, RoleFile] = {}
    succeeds_when: str = ""
    app: str | dict[str, str | int | list[str | int | float | bool]] = ""
    idle: IdleFile | None = None
    port: NotYet = None
    replicas: NotYet = None
    scale: NotYet = None
    readiness: NotYet = None
    rollout: NotYet = None
    drain: NotYet = None


def read_job(document: object, lines: Mapping[str, int] = {}) -> JobFile | Refusal:
    """The job file in a decoded document. `lines` (field to line) lets a refusal name the line."""
    try:
        return shaped(document, JobFile)
    except DocumentError as error:
        return with_line(error.refusal, lines)


def read_job_json(data: bytes) -> JobFile | Refusal:
    """The job file in a request's body."""
    decoded = read_json(data)
    return decoded if isinstance(decoded, Refusal) else read_job(decoded)


def read_json(data: bytes) -> object:
    """The JSON document in a request's body; a `Refusal` when there is none."""
    if len(data) > JOB_FILE_BYTES_MAX:
        rule = f"may have at most {JOB_FILE_BYTES_MAX} bytes"
        return Refusal(field="document", value=f"{len(data)} bytes", rule=rule)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Refusal(field="document", rule=f"is not JSON: {str(error)[:100]}")
