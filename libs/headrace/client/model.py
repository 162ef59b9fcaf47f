"""What the gateway answers: the same Structs for its OpenAPI, the client and `-o json`.

Rule: units are in the names; amounts of GPU are thousandths; times are µs since 1970 of the log's
clock, 0 when it has not happened.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_PAGE = 1_000  # rows or events in one answer

LIVE = ("submitted", "waiting", "held", "starting", "running", "stopping", "paused")
NODE_LOST = "node-lost"  # why a job ended whose last worker's end nobody saw
ENDED = ("succeeded", "failed", "cancelled", "refused")


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a request came to. `position` is where the log has the decision; `key` repeats it.

    A refused one carries the refusal's fields (`field`, `value`, `rule`, `instead`) and the line.
    `secret` signs a webhook's messages. `jwt` is a credential for the bus; a member's comes with the address of the `bus` (without a host:
    the gateway's) and the Ed25519 key (base64) of who signs the grants it may obey.
    What was neither taken nor refused, for now, may be asked again `again_after_s` seconds later.
    """

    accepted: bool
    position: int = 0
    key: str = ""
    job: str = ""
    name: str = ""
    change: str = ""
    version: str = ""
    warning: str = ""
    jwt: str = ""
    secret: str = ""
    pin: str = ""
    bus: str = ""
    grant_key: str = ""
    message: str = ""
    refusal: dict[str, str] | None = None
    again_after_s: int = 0


def signed_text(node: str, at_s: int) -> bytes:
    """What a member's key signs to ask for its credential, at `at_s` seconds since 1970."""
    return f"headrace:credential:{node}:{at_s}".encode()


def joining_text(node: str, at_s: int) -> bytes:
    """What a machine's key signs to be registered as that of a node."""
    return f"headrace:join:{node}:{at_s}".encode()


def publisher_text(project: str, name: str, at_s: int) -> bytes:
    """What a publisher's key signs to be registered, or to have its login renewed."""
    return f"headrace:publisher:{project}:{name}:{at_s}".encode()


class JobRow(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One job in a list: a single one, or a sweep or array with its tasks counted.

    `wants` is what it asks for in a few characters (`2×H100:8`); `where` the nodes of the live or
    last attempt; `why` one clause about why it waits, is held, or ended as it did. `waited_us` and
    `ran_us` go on while it waits or runs, up to `as_of_us`.
    """

    job: str
    project: str
    name: str
    user: str
    kind: str  # training | workspace | sweep | array
    state: str
    wants: str = ""
    where: list[str] = []
    why: str = ""
    group: str = ""
    index: int = 0
    tasks: int = 0
    tasks_parallel: int = 0
    tasks_running: int = 0
    tasks_ended: int = 0
    tasks_failed: int = 0
    attempt: int = 0
    evictions: int = 0
    exit_code: int | None = None
    requested_at_us: int = 0
    started_at_us: int = 0
    ended_at_us: int = 0
    waited_us: int = 0
    ran_us: int = 0
    held_milli: int = 0
    gpu_us: int = 0  # thousandths of a GPU times µs held by its finished attempts, / 1000
    position: int = 0  # of the event that asked for it
    best: str = ""  # trial of a sweep with an objective, and its value


class JobPage(msgspec.Struct, kw_only=True):
    """Jobs, newest last. `more` is the cursor of the page before; `next`, sorted, of the one after."""

    jobs: list[JobRow]
    as_of_us: int
    position: int
    more: int = 0
    next: str = ""


class Happening(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One event of the log, for people and pipelines. `data` is the event without sealed bytes."""

    position: int
    at_us: int
    type: str
    stream: str
    project: str = ""
    job: str = ""
    actor: str = ""
    causation: int = 0
    trace: str = ""
    data: dict[str, Any] = {}


class HappeningPage(msgspec.Struct, kw_only=True):
    """Events after a position; `position` is where to go on from, `is_end` that the log ended there:
    a page without any may have more after it.
    """

    events: list[Happening]
    position: int
    is_end: bool = False


class WorkerRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One worker. `gpus` are indexes on the node, `milli` of each, `reported` its program's words."""

    rank: int
    node: str
    gpus: list[int] = []
    devices: list[str] = []
    milli: list[int] = []
    model: str = ""
    simulated: bool = False
    enforcement: str = ""
    isolation: str = ""
    state: str = "starting"
    exit_code: int | None = None
    message: str = ""
    reported: dict[str, str] = {}
    role: str = ""


class AttemptRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One attempt: why there, who ran, how it ended."""

    attempt: int
    workers: list[WorkerRow]
    placed_at_us: int
    position: int
    rule: str = ""
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}
    started_at_us: int = 0
    evicted: str = ""
    evicted_at_us: int = 0
    gainer: str = ""
    eviction_rule: str = ""
    eviction_numbers: dict[str, int] = {}
    eviction_names: dict[str, str] = {}
    paused: str = ""  # by which way it has left its devices
    released_at_us: int = 0
    held_us: int = 0


class Description(msgspec.Struct, kw_only=True):
    """Everything about one job that the log keeps in clear. `spec` is its scheduling part: what it
    runs is sealed and shown to nobody.
    """

    job: JobRow
    spec: dict[str, Any]
    attempts: list[AttemptRow]
    timeline: list[Happening]
    trace: str
    as_of_us: int
    params: dict[str, str] = {}
    tasks: list[JobRow] = []


class GpuRow(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One GPU of a node, and who holds how many thousandths; `fault` is why it takes no new work."""

    device: str
    index: int
    model: str
    memory_bytes: int
    healthy: bool = True
    fault: str = ""
    held: dict[str, int] = {}


class NodeRow(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One node. `state` is ready, cordoned, draining, silent, fenced, or waiting: for approval.
    `isolation` is how it isolates jobs, `apart` what of it this log does not know, and what to do.
    """

    node: str
    state: str
    host: str = ""
    address: str = ""
    gpus: int = 0
    model: str = ""
    simulated: bool = False
    milli: int = 0
    held_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    jobs: list[str] = []
    labels: dict[str, str] = {}
    version: str = ""
    silent_since_us: int = 0
    devices: list[GpuRow] = []
    isolation: str = ""
    apart: str = ""


class ProjectRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A department or project. -1 as a quota is the whole fleet, as a limit none."""

    project: str
    kind: str
    parent: str = ""
    quota_milli: int = 0
    limit_milli: int = -1
    weight: int = 1
    share_milli: int = 0
    held_milli: int = 0
    running: int = 0
    waiting: int = 0
    gpu_us: int = 0


class LogPiece(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Output of one process. `offset` is where the next piece starts; `ended` when nothing follows
    from this process, `missing` why nothing could be read.
    """

    attempt: int
    rank: int
    process: int = 0
    node: str = ""
    offset: int = 0
    text: str = ""
    ended: bool = False
    missing: str = ""
    role: str = ""


class BusStatus(msgspec.Struct, kw_only=True):
    """The bus: where publishers connect to it, and whether the gateway is connected now."""

    url: str
    connected: bool


class InstanceRow(msgspec.Struct, kw_only=True):
    """One instance of a service, heard in the last seconds: whether it leads, and by how many events
    it is behind the log. `files` names the folder with files of projects, of which gateways share one.
    """

    service: str
    instance: str
    leading: bool
    epoch: int
    position: int
    lag: int
    memory_bytes: int
    files: str = ""


class Operations(msgspec.Struct, kw_only=True):
    """What operators look at. `metrics` is where the fleet's numbers are, `certificate_ends_us` when
    the gateway's certificate does (0: it speaks no TLS), `disk_permille` how full the disk with its
    files is.
    """

    instances: list[InstanceRow] = []
    metrics: str = ""
    certificate_ends_us: int = 0
    disk_permille: int = 0


class Status(Operations, kw_only=True):
    """The platform as the gateway sees it. `services` are those that lead, by epoch."""

    version: str
    position: int
    as_of_us: int
    bus: BusStatus
    services: dict[str, int]
    jobs: dict[str, int]
    nodes: int
    gpus: int
    held_milli: int
    node_states: dict[str, int] = {}


def why_ended(reason: str, message: str) -> str:
    """Why a job did not succeed, in one clause; empty when its outcome and exit code say it all."""
    said = [] if reason in {"error", "cancelled"} else [reason]
    is_plain = message.startswith(("exit code", "stopped"))  # what follows a semicolon is more
    said.append(message.partition("; ")[2] if is_plain else message)
    return ": ".join(part for part in said if part)
