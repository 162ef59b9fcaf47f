"""What a queue's document may guarantee and limit.

Rule: nobody is guaranteed what a limit, its own or one above it, would never let it hold. A quota
beyond what the fleet has today is accepted with a warning, for a fleet may grow; so is one below
what is held, and a limit below a quota that was given before: the excess is over quota from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headrace.documents.plan import TYPES
from headrace.events import Refusal
from headrace.events.queues import Allowance, Queue
from headrace.quota.state import State
from headrace.scheduling.amounts import UNLIMITED, at_most
from headrace.scheduling.explain import gpus
from headrace.scheduling.rations import limit_of_type, path_up


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A guarantee and a limit of one thing, under the `field` of the document that says them.
    `free`: whoever says nothing is guaranteed all there is.
    """

    field: str
    of: str  # GPUs, CPUs, …
    quota: int
    limit: int
    model: str = ""
    in_bytes: bool = False
    free: bool = False

    def shown(self, amount: int) -> str:
        """As a document says it."""
        if amount == UNLIMITED:
            return "all"
        return f"{amount}B" if self.in_bytes else gpus(amount)


def refuse_numbers(queue: Queue) -> Refusal | None:
    """Numbers that no queue can have."""
    numbers = {
        "gpus.over_quota_weight": queue.weight,
        "priority": queue.priority,
        "max_duration": queue.max_duration_us,
        "max_evictions.count": queue.evictions_max,
        "max_evictions.per": queue.evictions_per_us,
    }
    for field, number in numbers.items():
        if number < 0:
            return Refusal(field=field, value=str(number), rule="must not be negative")
    if bool(queue.evictions_max) != bool(queue.evictions_per_us):
        return Refusal(field="max_evictions", rule="has both count and per, or neither")
    for kind in queue.pools:
        if kind not in TYPES:
            rule = "is not a type of job"
            return Refusal(field=f"pools.{kind}", rule=rule, instead=", ".join(TYPES))
    if queue.user_max_milli < UNLIMITED:
        value = str(queue.user_max_milli)
        return Refusal(field="users.max_gpus", value=value, rule="must not be negative")
    for bound in bounds_of(queue):
        refusal = _refuse_bound(bound, queue)
        if refusal is not None:
            return refusal
    return None


def refuse_above(
    queues: Mapping[str, Queue], queue: Queue, configured: Mapping[str, int]
) -> Refusal | None:
    """A guarantee of more than something above the queue may hold at all."""
    for above in path_up(queues, queue.parent):
        if above.queue == queue.queue:
            continue
        for bound in bounds_of(queue):
            limit = _limit_of(above, bound)
            if not _exceeds(bound, limit):
                continue
            may, at = bound.shown(limit), configured.get(above.queue)
            set_by = f"apply at position {at}" if at else "the apply just before"
            return Refusal(
                field=f"{bound.field}.quota",
                value=bound.shown(bound.quota),
                rule=f"{above.kind} {above.queue} may hold at most {may} {bound.of} (limit set by "
                f"{set_by})",
                instead=f"{bound.field}.quota: {may}",
            )
    return None


def warning(state: State, queues: Mapping[str, Queue], queue: Queue) -> str:
    """What of the guarantees cannot be kept with today's nodes, or beside the others'."""
    has = state.total_milli
    if queue.quota_milli > has:
        return (
            f"accepted, but cannot be had today: {queue.queue} is guaranteed "
            f"{gpus(queue.quota_milli)} GPUs and the fleet has {gpus(has)}"
        )
    for model, part in queue.per_type.items():
        has = state.milli_of(model)
        if part.quota_milli > has:
            return (
                f"accepted, but cannot be had today: {queue.queue} is guaranteed "
                f"{gpus(part.quota_milli)} × {model} and the fleet has {gpus(has)}"
            )
    above = queues.get(queue.parent)
    return (_promised(queues, above) if above is not None else "") or _promised(queues, queue)


def _promised(queues: Mapping[str, Queue], above: Queue) -> str:
    """What those below it are guaranteed together, if that is more than it is itself."""
    below = [queue for queue in queues.values() if queue.parent == above.queue]
    if above.quota_milli != UNLIMITED:
        together = sum(max(0, queue.quota_milli) for queue in below)
        if together > above.quota_milli:
            return (
                f"accepted, but more than its guarantee: the projects of {above.queue} are guaranteed "
                f"{gpus(together)} GPUs together, and {above.queue} {gpus(above.quota_milli)}"
            )
    for model, part in above.per_type.items():
        theirs = (queue.per_type[model].quota_milli for queue in below if model in queue.per_type)
        together = sum(max(0, quota_milli) for quota_milli in theirs)
        if 0 <= part.quota_milli < together:
            return (
                f"accepted, but more than its guarantee: the projects of {above.queue} are guaranteed "
                f"{gpus(together)} × {model} together, and {above.queue} {gpus(part.quota_milli)}"
            )
    return ""


def bounds_of(queue: Queue) -> Iterator[Bound]:
    """Everything that a queue is guaranteed or limited in."""
    yield Bound(field="gpus", of="GPUs", quota=queue.quota_milli, limit=queue.limit_milli)
    for model, part in queue.per_type.items():
        yield _bound(f"gpus.per_type.{model}", f"{model} GPUs", part, model)
    for pool, part in queue.per_pool.items():
        yield _bound(f"gpus.per_pool.{pool}", f"GPUs of pool {pool}", part)
    yield Bound(
        field="cpu", of="CPUs", quota=queue.cpu_quota_milli, limit=queue.cpu_limit_milli, free=True
    )
    yield Bound(
        field="memory", of="of memory", quota=queue.memory_quota_bytes,
        limit=queue.memory_limit_bytes, in_bytes=True, free=True,
    )  # fmt: skip


def _bound(field: str, of: str, part: Allowance, model: str = "") -> Bound:
    return Bound(field=field, of=of, quota=part.quota_milli, limit=part.limit_milli, model=model)


def _refuse_bound(bound: Bound, queue: Queue) -> Refusal | None:
    for name, amount in (("quota", bound.quota), ("limit", bound.limit)):
        if amount < UNLIMITED:
            field = f"{bound.field}.{name}"
            return Refusal(field=field, value=str(amount), rule="must not be negative")
    limits = {bound.field: bound.limit}
    if bound.field.startswith("gpus."):
        limits["gpus"] = queue.limit_milli
    for field, limit in limits.items():
        if _exceeds(bound, limit):
            may = bound.shown(limit)
            rule = f"guarantees more than the limit of {may} allows"
            instead = f"{bound.field}.quota: {may} or a higher {field}.limit"
            value = bound.shown(bound.quota)
            return Refusal(field=f"{bound.field}.quota", value=value, rule=rule, instead=instead)
    return None


def _exceeds(bound: Bound, limit: int) -> bool:
    """Whether the guarantee is above that limit. What is free is guaranteed up to any limit."""
    if limit == UNLIMITED:
        return False
    return not bound.free if bound.quota == UNLIMITED else bound.quota > limit


def _limit_of(queue: Queue, bound: Bound) -> int:
    """The limit that `queue` has on what a queue below it says in `bound`."""
    limits = {b.field: b.limit for b in bounds_of(queue)}
    limit = limits.get(bound.field, UNLIMITED)
    if bound.model:
        limit = limit_of_type(queue.per_type, bound.model)
    return at_most(limit, queue.limit_milli) if bound.field.startswith("gpus.") else limit
