"""What placement and node agents say to each other.

Rule: agents reconcile to a full, signed document. `hello` and `pull` are requests answered with the
node's `Signed` desired state; `desired` carries the same document unasked; `report` carries what the
agent's journal holds beyond `recorded_through`, again and again until it is recorded. Signals are
sent and never stored.
"""

from __future__ import annotations

import msgspec

from headrace.events.asked import Mount
from headrace.events.gangs import Share
from headrace.events.nodes import HeldWorker, NodeJoined


class Hello(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sent at agent start and whenever the inventory changes. `running` lists the workers whose
    processes the agent holds; `lineage` is that of the log which it follows ("": none yet).
    """

    node: NodeJoined
    running: tuple[HeldWorker, ...] = ()
    lineage: str = ""


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker that should run on this node, or stop.

    `sealed` is a `Launch` (msgspec JSON) sealed to the node's public key; empty for a worker that is
    known to have started or is to stop, and where the launch can never be opened again. `stop` asks for the end,
    for `stop_reason`, within `grace_s`. `position` is that of `gang.placed` or `gang.grown`: the grant's id. With
    `replace_after_s` the worker ends when the node's lease is that old. It may use `cpu_milli` and
    `memory_bytes` of the node (0: no limit), as account number `account` of those that the fleet
    reserves, unless the node maps `user` to an account of its own. Its processes may listen at
    `ports` ports from `port` on. `stop_signal` is what asks it to end (SIGTERM unless said), `checkpoint_signal` what
    asks it to save itself, within `checkpoint_grace_s`, where its node ends it by itself ("": it does not). `phase`
    is locked, paused or, after either, running, as the decision at `phase_at` wants ("": nothing was
    ever wanted). `peers` are the addresses of a gang's nodes, which alone are to reach those ports. `checkpoint` is
    the tree that an earlier attempt left in its folder for checkpoints.
    """

    job: str
    attempt: int
    rank: int
    position: int
    project: str
    shares: tuple[Share, ...] = ()
    sealed: bytes = b""
    stop: bool = False
    stop_reason: str = ""
    grace_s: int = 10
    max_duration_s: int = 0
    replace_after_s: int = 0
    user: str = ""
    account: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    traceparent: str = ""
    port: int = 0
    ports: int = 0
    stop_signal: str = ""
    checkpoint_signal: str = ""
    checkpoint_grace_s: int = 0
    phase: str = ""
    phase_at: int = 0
    peers: tuple[str, ...] = ()
    checkpoint: str = ""


class Pull(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for the node's document, and renews the node's lease: `sent_ns` is when this was sent,
    by the node's `CLOCK_BOOTTIME`. `obeyed` is the position, in the log of `lineage`, of the newest
    document that the node has obeyed.
    """

    sent_ns: int = 0
    lineage: str = ""
    obeyed: int = 0


class Desired(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that should be on this node, as of `position` in `epoch`.

    An agent ignores a document that is older (by epoch, then position) than the last one it took.
    Reports up to `recorded_through` of journal `incarnation` are in the log. An attempt that is in
    no document and runs is reported and left running. `renewed_ns` is the `sent_ns` of the pull
    that this answers, from which on the node's lease counts; 0 renews nothing. `dismissed` tells an
    agent, in one line, why it is not believed to be this node: it ends, and leaves running what runs.

    `lineage` names the line of history that all this is from, which began at `lineage_at` and has
    `lineage_epoch` in the order of lines. An agent follows from one line to a later one only: it then
    forgets what it obeyed, says anew what it holds and what came of it, and starts nothing that was
    granted up to `lineage_at`.
    """

    node: str
    epoch: int
    position: int
    incarnation: str
    recorded_through: int
    renewed_ns: int = 0
    assignments: tuple[Assignment, ...] = ()
    dismissed: str = ""
    lineage: str = ""
    lineage_epoch: int = 0
    lineage_at: int = 0


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """`document` is the msgspec JSON of a `Desired`; `signature` is Ed25519 over those bytes."""

    document: bytes
    signature: bytes


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the agent's journal. `what` is started, exited, locked, paused, resumed or
    pause_failed, see `events.attempts` and `events.pauses`; or faulted, which concerns a `device`
    and no attempt, see `events.nodes`.
    """

    sequence: int
    what: str
    job: str
    attempt: int
    rank: int
    project: str
    at_us: int
    reason: str = ""
    exit_code: int = 0
    message: str = ""
    enforcement: str = ""
    isolation: str = ""
    traceparent: str = ""
    device: str = ""
    code: int = 0
    action: str = ""
    reported: dict[str, str] = {}
    asked_at: int = 0
    gpu_bytes: int = 0
    took_us: int = 0
    broken: bool = False
    outputs: str = ""
    outputs_files: int = 0
    outputs_bytes: int = 0
    process: int = -1
    checkpoint: str = ""


class Reports(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of reports in order, from one journal. At most 256."""

    node: str
    boot: str
    incarnation: str
    reports: tuple[Report, ...]


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A heartbeat every 2 s, with samples: `(device, busy permille, memory bytes used)`, and how
    full the disk with the node's folder is. A device whose library does not say how busy it is has
    None there, which is not 0: it may be in use.
    """

    node: str
    incarnation: str
    samples: tuple[tuple[str, int | None, int], ...] = ()
    running: int = 0
    disk_permille: int = 0


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What a running worker's program said last: decimals by name."""

    job: str
    attempt: int
    rank: int
    project: str
    values: dict[str, str]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How it goes, for whom it may concern: sent when it has changed, and all of it now and then.
    Never stored.
    """

    node: str
    workers: tuple[Reported, ...]


class ProbePass(msgspec.Struct, frozen=True, kw_only=True):
    """Lets `node`, whose key (X25519, base64) this is, measure the network to `peer`."""

    node: str
    public_key: str
    peer: str


class ProbePeer(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to ask at which address for which `level`; `signed` holds the `ProbePass`."""

    node: str
    address: str
    port: int
    level: str
    signed: Signed


class ProbePeers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `peers`: whom a node may measure the network to."""

    peers: tuple[ProbePeer, ...] = ()


class LogsWanted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request for bytes of one process's output from `offset` on (below 0: that many before the end); `wait_s` lets the agent hold the answer
    until there is more. `process` is the local index when a worker has several.
    """

    job: str
    attempt: int
    rank: int
    process: int = 0
    offset: int = 0
    bytes_max: int = 65_536
    wait_s: float = 0.0


class LogsChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Output from `offset`; `ended` when the process has gone and nothing follows."""

    offset: int
    data: bytes = b""
    ended: bool = False
    missing: str = ""  # why there is nothing to read


class Launch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker runs, as the project sealed it into `job.requested`, and what placement's shell
    adds when it seals it to a node: the substituted values, `environment` and `secrets`.

    `volumes` says where those of its `mounts` are on the nodes; `outputs` are the paths that are kept.
    `python` is the interpreter asked for; `gang_names` those of `env` that placement put there.
    `command` is argv, and `commands` those of roles that have their own, of which placement's shell
    leaves the one that runs. `processes` is how many copies run on the node, each with its own local rank.
    `framework` says which names they find in their environment, see `documents.frameworks`.
    With an `image` it runs in a container of that, whose /dev/shm has `shm_bytes` (0: the node's
    default).
    """

    command: tuple[str, ...]
    setup: tuple[str, ...] = ()
    env: dict[str, str] = {}
    workdir: str = ""
    processes: int = 1
    secrets: dict[str, str] = {}
    framework: str = ""
    image: str = ""
    shm_bytes: int = 0
    commands: dict[str, tuple[str, ...]] = {}
    mounts: tuple[Mount, ...] = ()
    volumes: dict[str, str] = {}
    outputs: tuple[str, ...] = ()
    python: str = ""
    gang_names: tuple[str, ...] = ()
