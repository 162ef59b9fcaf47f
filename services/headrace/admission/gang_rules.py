"""What a gang may ask for: its numbers, its pools, its place in their topology.

Rule: the documents refuse most of this already; a request that came another way is refused here, in
the same words.
"""

from __future__ import annotations

import msgspec

from headrace.admission.derived import of_fleet
from headrace.admission.limit_rules import shown
from headrace.admission.state import State
from headrace.documents.plan import TYPES
from headrace.documents.wording import KNOWN_SHOWN_MAX
from headrace.documents.workspaces import WORKSPACE
from headrace.events import Refusal
from headrace.events.asked import Gang
from headrace.events.pools import Pool
from headrace.events.queues import Queue
from headrace.scheduling.cluster import DEVICE_MILLI
from headrace.scheduling.rations import path_up

MAX_DURATION_US = 86_400_000_000  # where neither the job, nor its project, nor its pool says any
BUILD = "build"  # the pool of workspaces, where there is one
NO_POOL = "there is none yet: headrace apply -f creates pools and their levels"


def with_pools(state: State, project: str, gang: Gang) -> Gang:
    """The gang with the pools that its project, or the nearest above, has for its kind when it
    names none; workspaces have the pool `build` if nobody says otherwise. A workspace without an
    order of its own goes where it is cheapest.
    """
    if gang.pools:
        return gang
    queue = _with_pools(state, project, gang.kind)
    pools = queue.pools[gang.kind] if queue is not None else ()
    if queue is None and gang.kind == WORKSPACE and BUILD in state.pools:
        pools = (BUILD,)
    return msgspec.structs.replace(gang, pools=pools, by_price=gang.kind == WORKSPACE)


def max_duration_us(state: State, project: str, gang: Gang, asked_us: int) -> int:
    """The job's own, else its project's or the nearest above, else the shortest of its pools'."""
    if asked_us > 0:
        return asked_us
    for queue in path_up(state.queues, project):
        if queue.max_duration_us > 0:
            return queue.max_duration_us
    pools = (state.pools[name].max_duration_us for name in gang.pools if name in state.pools)
    return min((us for us in pools if us > 0), default=MAX_DURATION_US)


def refuse_gang(state: State, project: str, asked: Gang, gang: Gang) -> Refusal | None:
    """Why nothing could ever run this gang; `asked` is as the job file has it."""
    return (
        _refuse_kind(gang)
        or _refuse_roles(gang)
        or next((r for g in gang.by_role().values() if (r := _refuse_numbers(g))), None)
        or _refuse_pools(state, project, asked, gang)
        or _refuse_topology(state, gang)
        or next((r for g in gang.by_role().values() if (r := _refuse_slices(state, g))), None)
    )


def _refuse_kind(gang: Gang) -> Refusal | None:
    if gang.kind in TYPES:
        return None
    known = ", ".join(TYPES)
    return Refusal(field="type", value=gang.kind, rule="is not a type of job", instead=known)


def _refuse_roles(gang: Gang) -> Refusal | None:
    """Roles that are not told apart, whose sums are wrong, or of which the one that counts is none."""
    names = [role.name for role in gang.roles]
    if len({*names}) < len(names) or (names and "" in names):
        return Refusal(field="roles", value=", ".join(names), rule="each has a name of its own")
    most = sum(max(role.nodes, role.nodes_max) for role in gang.roles)
    sums = (sum(role.nodes for role in gang.roles), most)
    if names and sums != (gang.nodes, max(gang.nodes, gang.nodes_max)):
        return Refusal(field="nodes", value=str(gang.nodes), rule="is not the sum of its roles'")
    if gang.succeeds_when and gang.succeeds_when not in names:
        rule = "is not one of its roles"
        return Refusal(field="succeeds_when", value=gang.succeeds_when, rule=rule)
    return None


def _refuse_numbers(gang: Gang) -> Refusal | None:
    if gang.nodes < 1:
        return Refusal(field="nodes", value=str(gang.nodes), rule="a job has at least one node")
    amounts = (gang.cpu_milli, gang.memory_bytes, gang.gpu_memory_bytes)
    for name, amount in zip(("cpu", "memory", "gpu_memory"), amounts, strict=True):
        if amount < 0:
            rule = "must not be negative"
            return Refusal(field=f"resources.{name}", value=str(amount), rule=rule)
    if gang.nodes_max and gang.nodes_max < gang.nodes:
        value, instead = f"{gang.nodes}..{gang.nodes_max}", f"{gang.nodes_max}..{gang.nodes}"
        rule = "the minimum is above the maximum"
        return Refusal(field="nodes", value=value, rule=rule, instead=instead)
    for kind in gang.accelerators:
        whole, odd = divmod(kind.milli, DEVICE_MILLI)
        rule = instead = ""
        if kind.milli <= 0:
            rule = "must be above 0"
        elif kind.profile and (odd or gang.gpu_memory_bytes):
            rule, instead = "shares cannot be cut from MIG slices", f"gpus: {kind.profile}:1"
        elif whole and odd:
            rule, instead = "more than one GPU is a number of whole GPUs", f"{whole} or {whole + 1}"
        if rule:
            return Refusal(field="resources.gpus", value=shown(kind), rule=rule, instead=instead)
    return None


def _with_pools(state: State, project: str, kind: str) -> Queue | None:
    """The project, or the nearest above it, that says where its jobs of a kind are tried."""
    path = path_up(state.queues, project)
    return next((queue for queue in path if queue.pools.get(kind)), None)


def _refuse_pools(state: State, project: str, asked: Gang, gang: Gang) -> Refusal | None:
    for name in gang.pools:
        if name in state.pools:
            continue
        instead = "" if state.pools else NO_POOL
        rule = "there is no such pool"
        named_by = None if asked.pools else _with_pools(state, project, gang.kind)
        if named_by is not None:
            set_by = f"set by apply at position {state.configured.get(named_by.queue, 0)}"
            rule = f"{rule}; {named_by.kind} {named_by.queue} names it for its jobs ({set_by})"
        return Refusal(field="pools", value=name, rule=rule, instead=instead, unknown="pool")
    return None


def _refuse_topology(state: State, gang: Gang) -> Refusal | None:
    """Levels that no pool of the gang has, or that contradict each other in all of them."""
    required, preferred = gang.topology_required, gang.topology_preferred
    if not (required or preferred):
        return None
    pools = _pools_of(state, gang)
    known = dict.fromkeys(level for pool in pools for level in pool.topology)
    for field, level in (("required", required), ("preferred", preferred)):
        if level and level not in known:
            return Refusal(
                field=f"topology.{field}",
                value=level,
                rule=f"no pool of this job has such a level{_named(pools)}",
                instead="" if known else NO_POOL,
                unknown="level" if known else "",
            )
    levels = [pool.topology for pool in pools if {required, preferred} <= {*pool.topology}]
    if levels and all(t.index(preferred) < t.index(required) for t in levels):
        rule = f"is wider than the required {required}"
        return Refusal(field="topology.preferred", value=preferred, rule=rule)
    return None


def _refuse_slices(state: State, gang: Gang) -> Refusal | None:
    """A share of a GPU in pools whose GPUs are all cut into MIG slices."""
    shares = [kind for kind in gang.accelerators if kind.milli % DEVICE_MILLI]
    if not gang.pools or not shares or len(shares) < len(gang.accelerators):
        return None
    if not all(_profiles(state, state.pools[name]) for name in gang.pools):
        return None
    name = gang.pools[0]
    whole = next((p.pool for p in state.pools.values() if not _profiles(state, p)), "")
    instead = f"ask for gpus: {_profiles(state, state.pools[name])[0]}:1"
    return Refusal(
        field="resources.gpus",
        value=f"{shown(shares[0])} with MIG pool '{name}'",
        rule="shares cannot be cut from MIG slices",
        instead=f"{instead} or pools: [{whole}]" if whole else instead,
    )


def _profiles(state: State, pool: Pool) -> list[str]:
    """The MIG profiles of a pool in which every GPU is cut into slices; else none."""
    known: dict[str, list[str]] = of_fleet(state, "profiles")
    found = known.get(pool.pool)
    if found is None:
        machines = [machine for machine in state.nodes.values() if pool.has(machine.said.labels)]
        profiles = sorted({gpu.profile for machine in machines for gpu in machine.said.devices})
        found = known[pool.pool] = profiles if "" not in profiles else []
    return found


def _pools_of(state: State, gang: Gang) -> list[Pool]:
    """Where the gang is tried: in its pools, or anywhere."""
    if not gang.pools:
        return list(state.pools.values())
    return [state.pools[name] for name in gang.pools if name in state.pools]


def _named(pools: list[Pool]) -> str:
    return f" ({', '.join(pool.pool for pool in pools[:KNOWN_SHOWN_MAX])})" if pools else ""
