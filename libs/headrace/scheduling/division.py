"""Fair shares: how a total of GPUs is divided among queues that want more than there is.

Rule: first every queue gets what it wants up to its quota; what is left goes to the highest
priority bucket first, by over-quota weight, and what weights cannot divide to the largest
remainder. A department's share is divided among its projects in the same way. The semantics are
those of KAI-Scheduler's proportion plugin, without time decay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from headrace.events.queues import Queue

UNLIMITED = -1


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one queue brings to a division. `age` orders equals: lower is older."""

    queue: str
    quota_milli: int
    limit_milli: int
    weight: int
    priority: int
    request_milli: int  # allocated and pending together
    age: int


def divide_tree(
    queues: Mapping[str, Queue], requests: Mapping[str, int], total_milli: int
) -> dict[str, int]:
    """Each queue's fair share in milli-GPUs. `requests` names what every queue has and wants; a
    parent wants what its children may have. The order of `queues` is their age.
    """
    children: dict[str, list[str]] = {}
    for name, queue in queues.items():
        children.setdefault(queue.parent, []).append(name)
    ages = {name: age for age, name in enumerate(queues)}
    wants: dict[str, int] = {}
    for name in children.get("", []):
        _add_wants(name, queues, children, requests, wants)
    shares: dict[str, int] = {}
    pending = [("", total_milli)]
    while pending:
        parent, amount = pending.pop()
        claims = (
            [_claim(queues[name], wants[name], ages[name]) for name in children[parent]]
            if (parent in children)
            else []
        )
        divided = divide(claims, amount)
        shares.update(divided)
        pending.extend((name, share) for name, share in divided.items())
    return {name: shares.get(name, 0) for name in queues}


def divide(claims: Sequence[Claim], total_milli: int, grain_milli: int = 1) -> dict[str, int]:
    """Each claim's share of `total_milli`, in the claims' order.

    Weighted parts are rounded down to `grain_milli`; leftovers are handed out in grains.
    """
    shares = {c.queue: min(_deserved(c, total_milli), _requestable(c)) for c in claims}
    left = total_milli - sum(shares.values())
    remainders: dict[str, Fraction] = {}
    buckets = sorted({c.priority for c in claims}, reverse=True)
    for priority in buckets:
        bucket = [c for c in claims if c.priority == priority]
        left = _over_quota(bucket, shares, remainders, left, grain_milli)
    for priority in buckets:
        bucket = [c for c in claims if c.priority == priority and c.queue in remainders]
        for claim in sorted(bucket, key=lambda c: (-remainders[c.queue], c.age, c.queue)):
            give = max(0, min(grain_milli, left, _requestable(claim) - shares[claim.queue]))
            shares[claim.queue] += give
            left -= give
    return shares


def _over_quota(
    bucket: Sequence[Claim],
    shares: dict[str, int],
    remainders: dict[str, Fraction],
    left: int,
    grain: int,
) -> int:
    """Divide what is left among one priority's unsatisfied claims; what then remains."""
    while left > 0:
        hungry = [c for c in bucket if c.weight > 0 and _requestable(c) > shares[c.queue]]
        weights = sum(c.weight for c in hungry)
        if not weights:
            break
        amount, satisfied = left, False
        for claim in hungry:
            want = _requestable(claim) - shares[claim.queue]
            fair = Fraction(amount * claim.weight, weights)
            if want <= fair:
                give = want
                remainders.pop(claim.queue, None)
                satisfied = satisfied or want < fair
            else:
                give = int(fair) // grain * grain
                remainders[claim.queue] = fair - give
            shares[claim.queue] += give
            left -= give
        if not satisfied:
            break
    return left


def _deserved(claim: Claim, total_milli: int) -> int:
    return total_milli if claim.quota_milli == UNLIMITED else claim.quota_milli


def _requestable(claim: Claim) -> int:
    if claim.limit_milli == UNLIMITED:
        return claim.request_milli
    return min(claim.limit_milli, claim.request_milli)


def _claim(queue: Queue, request_milli: int, age: int) -> Claim:
    return Claim(
        queue=queue.queue,
        quota_milli=queue.quota_milli,
        limit_milli=queue.limit_milli,
        weight=queue.weight,
        priority=queue.priority,
        request_milli=request_milli,
        age=age,
    )


def _add_wants(
    name: str,
    queues: Mapping[str, Queue],
    children: Mapping[str, list[str]],
    requests: Mapping[str, int],
    wants: dict[str, int],
) -> int:
    """What the queue and its children can use; the tree is free of cycles (quota sees to it)."""
    own = requests.get(name, 0)
    for child in children.get(name, []):
        own += _add_wants(child, queues, children, requests, wants)
    limit = queues[name].limit_milli
    wants[name] = own if limit == UNLIMITED else min(own, limit)
    return wants[name]
