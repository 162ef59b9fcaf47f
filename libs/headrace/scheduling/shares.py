"""One total divided among those who want more than there is.

Rule: first everybody gets what it wants up to its quota; what is left goes to the highest priority
bucket first, by over-quota weight, and what weights cannot divide to the largest remainder. Whoever
used more than its weight lately weighs less, as far as `usage_strength` says. The semantics are
those of KAI-Scheduler's proportion plugin, in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from headrace.scheduling.amounts import UNLIMITED

USAGE_ONE = 1_000_000  # a queue that used the whole total all the time
STRENGTH_ONE = 1000  # usage counts as much as weight


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one queue brings to a division. `age` orders equals: lower is older; `usage` is the part
    of the total that it had lately, in parts of `USAGE_ONE`.
    """

    queue: str
    quota_milli: int
    limit_milli: int
    weight: int
    priority: int
    request_milli: int  # allocated and pending together
    age: int
    usage: int = 0


def divide(
    claims: Sequence[Claim], total_milli: int, grain_milli: int = 1, usage_strength: int = 0
) -> dict[str, int]:
    """Each claim's share of `total_milli`, in the claims' order.

    Weighted parts are rounded down to `grain_milli`; leftovers are handed out in grains.
    """
    shares = {c.queue: min(_deserved(c, total_milli), _requestable(c)) for c in claims}
    left = total_milli - sum(shares.values())
    divide_over_quota(claims, shares, left, grain_milli, usage_strength)
    return shares


def divide_over_quota(
    claims: Sequence[Claim], shares: dict[str, int], left: int, grain: int, usage_strength: int = 0
) -> int:
    """Add to `shares` what is left over after every quota; what nobody may have is returned."""
    remainders: dict[str, Fraction] = {}
    buckets = sorted({c.priority for c in claims}, reverse=True)
    for priority in buckets:
        bucket = [c for c in claims if c.priority == priority]
        while left > 0:
            given, again = _by_weight(bucket, shares, left, grain, usage_strength)
            for name, (give, rest) in given.items():
                shares[name] += give
                left -= give
                remainders[name] = rest
            if not again:
                break
    for priority in buckets:
        bucket = [c for c in claims if c.priority == priority and c.queue in remainders]
        for claim in sorted(bucket, key=lambda c: (-remainders[c.queue], c.age, c.queue)):
            give = max(0, min(grain, left, _requestable(claim) - shares[claim.queue]))
            shares[claim.queue] += give
            left -= give
    return max(0, left)


def _by_weight(
    bucket: Sequence[Claim], shares: Mapping[str, int], amount: int, grain: int, usage_strength: int
) -> tuple[dict[str, tuple[int, Fraction]], bool]:
    """One round of dividing among one priority's unsatisfied claims: what each is given and what
    rounding kept back, and whether somebody wanted less than its part, so that another is worth it.
    """
    hungry = [c for c in bucket if c.weight > 0 and _requestable(c) > shares[c.queue]]
    parts = _parts(hungry, usage_strength)
    whole = sum(parts)
    given: dict[str, tuple[int, Fraction]] = {}
    again = False
    if not whole:
        return given, again
    for claim, part in zip(hungry, parts, strict=True):
        want = _requestable(claim) - shares[claim.queue]
        fair = Fraction(amount * part, whole)
        if want <= fair:
            given[claim.queue] = (want, Fraction(0))
            again = again or want < fair
        else:
            give = int(fair) // grain * grain
            given[claim.queue] = (give, fair - give)
    return given, again


def _parts(hungry: Sequence[Claim], usage_strength: int) -> list[int]:
    """What each claim weighs, as integers: weight w of W with usage u counts as
    max(0, w/W + k (w/W - u)).
    """
    weights = sum(c.weight for c in hungry)
    ones = USAGE_ONE * STRENGTH_ONE
    return [
        max(
            0,
            c.weight * ones
            + usage_strength * (c.weight * USAGE_ONE - min(c.usage, USAGE_ONE) * weights),
        )
        for c in hungry
    ]


def _deserved(claim: Claim, total_milli: int) -> int:
    return total_milli if claim.quota_milli == UNLIMITED else claim.quota_milli


def _requestable(claim: Claim) -> int:
    if claim.limit_milli == UNLIMITED:
        return claim.request_milli
    return min(claim.limit_milli, claim.request_milli)
