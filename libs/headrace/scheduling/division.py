"""Fair shares: how a total is divided down a tree of queues.

Rule: among the roots first (`shares.divide`), then what each has among its children in the same way,
each resource and each part of the fleet for itself. A queue wants what those below it may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.events.queues import Queue
from headrace.scheduling.amounts import EVERYTHING, GPU, RESOURCES, UNLIMITED, Amounts, at_most
from headrace.scheduling.parts import NO_RATION, Part, PartRation
from headrace.scheduling.shares import Claim, divide

GRAINS: Amounts = (1000, 1, 1)  # weights hand out whole GPUs, thousandths of a core, bytes


class Ration(msgspec.Struct, frozen=True, kw_only=True):
    """One resource's configuration of a queue, in that resource's unit."""

    quota: int = 0
    limit: int = UNLIMITED
    weight: int = 1


class QueueSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One queue of the tree as the scheduler sees it. `age` orders equals: lower is older.

    `reclaim_after_us` and `preempt_after_us` protect what has run shorter; None: as the parent.
    `bounds_firm`: its quota bounds work that cannot be preempted. `parts`: what it has of them. At
    most `evictions_max` gangs are evicted for others in any `evictions_per_us` (0: unbounded).
    """

    queue: str
    parent: str = ""
    priority: int = 100
    age: int = 0
    rations: tuple[Ration, Ration, Ration] = (Ration(), Ration(), Ration())
    reclaim_after_us: int | None = None
    preempt_after_us: int | None = None
    bounds_firm: bool = True
    parts: Mapping[Part, PartRation] = {}
    evictions_max: int = 0
    evictions_per_us: int = 0

    @property
    def quota(self) -> Amounts:
        """What is guaranteed."""
        gpu, cpu, memory = self.rations
        return (gpu.quota, cpu.quota, memory.quota)

    @property
    def firm_limit(self) -> Amounts:
        """What work that cannot be preempted never exceeds."""
        return self.quota if self.bounds_firm else EVERYTHING

    @property
    def limit(self) -> Amounts:
        """What is never exceeded."""
        gpu, cpu, memory = self.rations
        return (gpu.limit, cpu.limit, memory.limit)


def divide_tree(
    queues: Mapping[str, Queue],
    requests: Mapping[str, int],
    total_milli: int,
    usage: Mapping[str, int] = {},
    usage_strength: int = 0,
) -> dict[str, int]:
    """Each queue's fair share in milli-GPUs. `requests` names what every queue has and wants; a
    parent wants what its children may have. The order of `queues` is their age. `usage` in parts of
    `USAGE_ONE` of the total, `usage_strength` in parts of `STRENGTH_ONE`.
    """
    claims = {
        name: _claim(queue, age, requests.get(name, 0), usage.get(name, 0))
        for age, (name, queue) in enumerate(queues.items())
    }
    parents = {name: queue.parent for name, queue in queues.items()}
    return _divide_down(parents, claims, total_milli, 1, usage_strength)


def divide_amounts(
    queues: Mapping[str, QueueSpec],
    requests: Mapping[str, Amounts],
    total: Amounts,
    usage: Mapping[str, Amounts] | None = None,
    usage_strength: int = 0,
) -> dict[str, Amounts]:
    """Each queue's fair share of every resource; `usage` in parts of `USAGE_ONE` of the total,
    `usage_strength` in parts of `STRENGTH_ONE`.
    """
    parents = {name: queue.parent for name, queue in queues.items()}
    by_resource: list[dict[str, int]] = []
    for resource in RESOURCES:
        claims = {
            name: _claim_of(
                queue,
                queue.rations[resource],
                requests[name][resource] if name in requests else 0,
                usage[name][resource] if usage and name in usage else 0,
            )
            for name, queue in queues.items()
        }
        grain = GRAINS[resource]
        by_resource.append(_divide_down(parents, claims, total[resource], grain, usage_strength))
    gpu, cpu, memory = by_resource
    return {name: (gpu[name], cpu[name], memory[name]) for name in queues}


def divide_part(
    queues: Mapping[str, QueueSpec],
    part: Part,
    requests: Mapping[str, int],
    total_milli: int,
    *,
    usage: Mapping[str, Amounts] | None = None,
    usage_strength: int = 0,
) -> dict[str, int]:
    """Each queue's fair share of a part of the fleet: what nobody is guaranteed of it is divided by
    the weights that divide all GPUs.
    """
    parents = {name: queue.parent for name, queue in queues.items()}
    claims: dict[str, Claim] = {}
    for name, queue in queues.items():
        mine = queue.parts.get(part, NO_RATION)
        ration = Ration(quota=mine.quota, limit=mine.limit, weight=queue.rations[GPU].weight)
        used = usage[name][GPU] if usage and name in usage else 0
        claims[name] = _claim_of(queue, ration, requests.get(name, 0), used)
    return _divide_down(parents, claims, total_milli, GRAINS[GPU], usage_strength)


def _divide_down(
    parents: Mapping[str, str],
    claims: Mapping[str, Claim],
    total: int,
    grain: int,
    usage_strength: int,
) -> dict[str, int]:
    """Divide among the roots, then every queue's share among its children. A queue whose path does
    not end at a root has no share.
    """
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        if name:
            children.setdefault(parent, []).append(name)
    order = list(children.get("", ()))
    for name in order:
        order += children.get(name, ())
    wants = _wants(claims, children, order)
    shares = {"": total}
    for parent in ("", *order):
        if parent not in children:
            continue
        names = children[parent]
        mine = [msgspec.structs.replace(claims[n], request_milli=wants[n]) for n in names]
        shares |= divide(mine, shares[parent], grain, usage_strength)
    return {name: shares.get(name, 0) if name else 0 for name in claims}


def _wants(
    claims: Mapping[str, Claim], children: Mapping[str, list[str]], order: Sequence[str]
) -> dict[str, int]:
    """What every queue and its children can use; `order` has parents before their children."""
    wants: dict[str, int] = {}
    for name in reversed(order):
        below = sum(wants[child] for child in children.get(name, ()))
        limit = claims[name].limit_milli
        wants[name] = at_most(limit, claims[name].request_milli + below)
    return wants


def _claim_of(queue: QueueSpec, ration: Ration, request: int, usage: int) -> Claim:
    return Claim(
        queue=queue.queue,
        quota_milli=ration.quota,
        limit_milli=ration.limit,
        weight=max(0, ration.weight),
        priority=queue.priority,
        request_milli=request,
        age=queue.age,
        usage=usage,
    )


def _claim(queue: Queue, age: int, request: int, usage: int) -> Claim:
    return Claim(
        queue=queue.queue,
        quota_milli=queue.quota_milli,
        limit_milli=queue.limit_milli,
        weight=queue.weight,
        priority=queue.priority,
        request_milli=request,
        age=age,
        usage=usage,
    )
