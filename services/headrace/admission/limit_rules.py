"""Whether a job fits under what its project, its user and all above them may ever hold.

Rule: judged by the smallest thing that the job would accept; what others hold now is no matter.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.admission.state import State
from headrace.events import Refusal
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobRequested
from headrace.events.queues import Queue
from headrace.scheduling.amounts import UNLIMITED
from headrace.scheduling.cluster import DEVICE_MILLI
from headrace.scheduling.explain import gpus
from headrace.scheduling.rations import NO_RATION, limit_of_type, path_up


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody (`who`) may hold of something (`what`)."""

    who: str
    what: str
    milli: int


def refuse_limits(state: State, event: JobRequested, gang: Gang) -> Refusal | None:
    """A refusal when no preference stays within every limit; for what may not be preempted, within
    every quota too. Roles are judged one by one, then all together by what is theirs of any kind.
    """
    parts = [g for g in gang.by_role().values() if g.accelerators and not g.gpu_memory_bytes]
    path = path_up(state.queues, event.project)
    if len(parts) > 1:
        least_milli = sum(_least(part).milli * part.nodes for part in parts)
        together = Accelerator(milli=least_milli)
        whole = msgspec.structs.replace(gang, roles=(), nodes=1, accelerators=(together,))
        parts.append(whole)
    for part in parts:
        refusal = _refuse_part(state, path, part) or _not_guaranteed(state, path, event, part)
        if refusal is not None:
            return refusal
    return None


def _refuse_part(state: State, path: list[Queue], gang: Gang) -> Refusal | None:
    least, refusal = _least(gang), None
    for kind in gang.accelerators:
        exceeded = _exceeded(path, gang, kind)
        if exceeded is None:
            return None
        queue, limit = exceeded
        if refusal is None or kind is least:
            refusal = _above(state, queue, limit, gang, kind)
    return refusal


def _least(gang: Gang) -> Accelerator:
    return min(gang.accelerators, key=lambda kind: kind.milli)


def shown(kind: Accelerator) -> str:
    """As a job file names it: `H100:8`."""
    whole = kind.milli % DEVICE_MILLI == 0
    amount = str(kind.milli // DEVICE_MILLI) if whole else gpus(kind.milli)
    return ":".join(part for part in (kind.model, kind.profile, amount) if part)


def _exceeded(path: list[Queue], gang: Gang, kind: Accelerator) -> tuple[Queue, Limit] | None:
    """The nearest limit that the gang would exceed with this kind of GPU."""
    needed = kind.milli * gang.nodes
    for queue in path:
        for limit in _limits(queue, gang, kind):
            if needed > limit.milli:
                return queue, limit
    return None


def _limits(queue: Queue, gang: Gang, kind: Accelerator) -> Iterator[Limit]:
    """What bounds the gang here."""
    who = f"{queue.kind} {queue.queue}"
    if queue.limit_milli != UNLIMITED:
        yield Limit(who=who, what="GPUs", milli=queue.limit_milli)
    if queue.users_equal and queue.user_max_milli != UNLIMITED:
        yield Limit(who=f"one user of {who}", what="GPUs", milli=queue.user_max_milli)
    if queue.per_type and kind.model:
        limit = limit_of_type(queue.per_type, kind.model)
        if limit != UNLIMITED:
            yield Limit(who=who, what=f"{kind.model} GPUs", milli=limit)
    if queue.per_pool and gang.pools:
        pools = [queue.per_pool.get(pool, NO_RATION).limit_milli for pool in gang.pools]
        if UNLIMITED not in pools:
            yield Limit(who=who, what=f"GPUs of {' or '.join(gang.pools)}", milli=max(pools))


def _above(state: State, queue: Queue, limit: Limit, gang: Gang, kind: Accelerator) -> Refusal:
    nodes, needed = gang.nodes, kind.milli * gang.nodes
    set_by = f"limit set by apply at position {state.configured.get(queue.queue, 0)}"
    rule = f"{limit.who} may hold at most {gpus(limit.milli)} {limit.what} ({set_by})"
    if nodes == 1:
        instead = f"gpus: {gpus(limit.milli)} fits" if limit.milli > 0 else ""
        return Refusal(field="resources.gpus", value=shown(kind), rule=rule, instead=instead)
    rule = f"{rule}; {nodes} × {shown(kind)} is {gpus(needed)}"
    fitting = limit.milli // kind.milli
    instead = f"nodes: {fitting} fits" if fitting > 0 else ""
    return Refusal(field="nodes", value=str(nodes), rule=rule, instead=instead)


def _not_guaranteed(
    state: State, path: list[Queue], event: JobRequested, gang: Gang
) -> Refusal | None:
    """What is never preempted is within quota, all the way up."""
    if event.preemptible and not event.protected_minimum:
        return None
    least = _least(gang)
    nodes, needed = gang.nodes, least.milli * gang.nodes
    for queue in path:
        if queue.quota_milli == UNLIMITED or needed <= queue.quota_milli:
            continue
        set_by = f"quota set by apply at position {state.configured.get(queue.queue, 0)}"
        return Refusal(
            field="preemptibility",
            value="semi-preemptible" if event.protected_minimum else "non-preemptible",
            rule=f"{queue.kind} {queue.queue} is guaranteed {gpus(queue.quota_milli)} GPUs "
            f"({set_by}) and a job that is never preempted must fit; {nodes} × "
            f"{gpus(least.milli)} is {gpus(needed)}",
            instead="preemptible may use more",
        )
    return None
