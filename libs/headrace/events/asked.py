"""What a job asks for, as the scheduler needs to know it: so many nodes, and so much of each.

Rule: all of it is per node; what differs between nodes is a role's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec


class Accelerator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One acceptable kind of GPU and how much of it, per node.

    `milli` is thousandths of a GPU: 2000 is two whole GPUs, 250 a quarter of one. An empty `model`
    means any. The memory bounds are the marketed sizes in bytes (0: unbounded). With a MIG
    `profile` (`1g.10gb`), 1000 is one slice of that profile and there are no shares.
    """

    milli: int
    model: str = ""
    memory_bytes_min: int = 0
    memory_bytes_max: int = 0
    profile: str = ""


class Mount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker finds at `path`, below its working directory unless absolute: a `volume`, or
    what an earlier `job` of the project left behind.
    """

    path: str
    volume: str = ""
    job: str = ""
    read_only: bool = False


class Role(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some of a gang's workers, which run a command of their own: `nodes` of them, up to `nodes_max`
    (0: no more). What is per node is as `Gang` has it. Workers of two roles may share a node.
    """

    name: str
    nodes: int = 1
    accelerators: tuple[Accelerator, ...] = ()
    gpu_memory_bytes: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    per_gpu_processes: bool = False
    nodes_max: int = 0


class Gang(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job asks for. `nodes` workers at once or none; everything else is per node.

    `accelerators` is a list in order of preference, never mixed inside one gang; empty means no
    GPU. `gpu_memory_bytes` asks for this much memory of one GPU instead of a share. An elastic gang
    grows from `nodes` to `nodes_max` (0: it does not). `pools` are tried in this order (none: every
    node). Its nodes share a domain of the level `topology_required`, and of `topology_preferred`
    where that can be had. They reach all `volumes`, and have the interpreter `python`. `kind` is the job's type, which says what pools its project has for it;
    `by_price`: its pools are in no order of its own, so the cheapest that fits is tried first.
    `contained`: it runs in a container image, so only on nodes that have an engine for that.

    Workers differ by `roles`, the first of which has rank 0: `nodes` and `nodes_max` are their sums
    then, and what is per node each role's. The gang has succeeded when every worker of the role
    `succeeds_when` has; without it, when all have.
    """

    nodes: int = 1
    accelerators: tuple[Accelerator, ...] = ()
    gpu_memory_bytes: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    per_gpu_processes: bool = False
    nodes_max: int = 0
    pools: tuple[str, ...] = ()
    topology_required: str = ""
    topology_preferred: str = ""
    kind: str = "training"
    by_price: bool = False
    roles: tuple[Role, ...] = ()
    succeeds_when: str = ""
    contained: bool = False
    volumes: tuple[str, ...] = ()
    python: str = ""

    def by_role(self) -> dict[str, Gang]:
        """Each of its roles as a gang of its own; itself, under no name, when it has none."""
        if not self.roles:
            return {"": self}
        return {role.name: self._alone(role) for role in self.roles}

    def has_minimum(self, roles: Iterable[str]) -> bool:
        """Whether workers of these roles are enough of each."""
        if not self.roles:
            return sum(1 for _ in roles) >= self.nodes
        have = Counter(roles)
        return all(have[role.name] >= role.nodes for role in self.roles)

    def without(self, role: str, kinds: tuple[Accelerator, ...]) -> Gang:
        """The same without these kinds of GPUs in the role."""
        if not role:
            left = tuple(kind for kind in self.accelerators if kind not in kinds)
            return msgspec.structs.replace(self, accelerators=left)
        roles = tuple(
            msgspec.structs.replace(
                each, accelerators=tuple(kind for kind in each.accelerators if kind not in kinds)
            )
            if each.name == role
            else each
            for each in self.roles
        )
        return msgspec.structs.replace(self, roles=roles)

    def _alone(self, role: Role) -> Gang:
        own = {name: getattr(role, name) for name in role.__struct_fields__ if name != "name"}
        return msgspec.structs.replace(self, roles=(), succeeds_when="", **own)


AFTER_STATES = ("succeeded", "failed", "finished")


class Dependency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `job` that has to end first: as `succeeded`, `failed` (not cancelled), or anyhow
    (`finished`), once it was admitted. A job file may name it by the idempotency `key` that it was
    submitted under, instead of by its id.
    """

    job: str = ""
    state: str = "succeeded"
    key: str = ""

    def is_met_by(self, outcome: str) -> bool:
        """Whether a job that ended so is no longer waited for."""
        return outcome == self.state or (self.state == "finished" and outcome != "refused")

    @property
    def in_words(self) -> str:
        """What is waited for: `to succeed`."""
        return {"succeeded": "to succeed", "failed": "to fail"}.get(self.state, "to end")


GOALS = ("max", "min")


class Objective(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sweep's trials are compared by: a `metric` that they report, and its `goal`."""

    metric: str
    goal: str = "max"


class Workspace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An application that is opened through the gateway. It listens at `port` of its node (0: the
    port of its worker's first process). Not used for `idle_us` it is to end (0: never). `app` is
    its name, if that is known (`documents.apps`).
    """

    port: int = 0
    idle_us: int = 0
    app: str = ""


RETRY_ON = ("node-lost", "oom", "error", "setup", "timeout")
RETRY_REST_US_MAX = 86_400_000_000  # however often a rest was doubled


class Retry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """After which ends (`RETRY_ON`) a job is tried again, while it has had fewer than `attempts`; it
    rests for `backoff_us` before the second, and twice as long before each further one.
    """

    on: tuple[str, ...] = ()
    attempts: int = 0
    backoff_us: int = 0

    def rest_us(self, tries: int) -> int:
        """How long it rests when so many attempts have ended."""
        return min(self.backoff_us << min(max(0, tries - 1), 40), RETRY_REST_US_MAX)
