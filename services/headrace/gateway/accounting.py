"""Who used how much of what, by day: GPU time, and what it cost.

Rule: from the log alone. Time is counted where it passed: a booking that lasts over midnight (UTC) is
in both days. What is booked still counts up to now; its price is that of the moment it is asked about,
while what was given back keeps the price it had then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from headrace.client.usage_model import UsageRow
from headrace.events.gangs import Share
from headrace.gateway.projection import Projection, UsageKey, Used
from headrace.scheduling.kinds import is_model

DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000
DAYS_MAX = 400  # that are kept; what is older is in the log
BY = ("day", "project", "user", "model", "pool")


class Booking(NamedTuple):
    """A share of a device, booked by a job from one moment to another."""

    job: str
    project: str
    share: Share
    begin_us: int
    end_us: int


def account(projection: Projection, booking: Booking) -> None:
    """Count a booking that is over."""
    for key, used in _pieces(projection, booking):
        _add(projection.usage, key, used)
    oldest = booking.end_us // DAY_US - DAYS_MAX
    while projection.usage and (first := next(iter(projection.usage))).day < oldest:
        del projection.usage[first]


def usage(
    projection: Projection, now_us: int, *, since_us: int = 0, until_us: int = 0
) -> dict[UsageKey, Used]:
    """All use on the days from `since_us` to `until_us` (0: now), also of what is booked still."""
    found = {key: Used(used.gpu_us, used.cost_micro) for key, used in projection.usage.items()}
    for device, since in projection.since.items():
        for job, begin_us in since.items():
            milli = projection.held.get(device, {}).get(job, 0)
            live = projection.live.get(job)
            if milli and live is not None:
                share = Share(device=device, milli=milli)
                booking = Booking(job, live.project, share, begin_us, now_us)
                for key, used in _pieces(projection, booking):
                    _add(found, key, used)
    first, last = since_us // DAY_US, (until_us or now_us) // DAY_US
    return {key: found[key] for key in found if first <= key.day <= last}


def grouped(found: Mapping[UsageKey, Used], by: Sequence[str]) -> list[UsageRow]:
    """The same, added up over what is not in `by` (names of `BY`); in order of `by`."""
    sums: dict[tuple[str, ...], Used] = {}
    for key, used in found.items():
        named = (*(_text(key, name) for name in by), key.currency)
        _add(sums, named, used)
    return [
        UsageRow(
            **dict(zip(by, names, strict=False)),
            gpu_us=sums[names].gpu_us,
            cost_micro=sums[names].cost_micro,
            currency=names[-1],
        )
        for names in sorted(sums)
    ]


def _text(key: UsageKey, name: str) -> str:
    if name == "day":
        return datetime.fromtimestamp(key.day * DAY_US // 1_000_000, UTC).strftime("%Y-%m-%d")
    return str(getattr(key, name))


def _pieces(projection: Projection, booking: Booking) -> Iterator[tuple[UsageKey, Used]]:
    """The booking day by day."""
    job = projection.job(booking.job)
    user = job.user if job is not None else ""
    model, pool, price, currency = _kind(projection, booking.share.device)
    begin_us = booking.begin_us
    while begin_us < booking.end_us:
        day = begin_us // DAY_US
        end_us = min(booking.end_us, (day + 1) * DAY_US)
        gpu_us = booking.share.milli * (end_us - begin_us) // 1000
        key = UsageKey(day, booking.project, user, model, pool, currency)
        yield key, Used(gpu_us, gpu_us * price // HOUR_US)
        begin_us = end_us


def _kind(projection: Projection, device: str) -> tuple[str, str, int, str]:
    """Model, pool, price per hour in millionths, and currency of a device."""
    where = projection.devices.get(device)
    if where is None:
        return "", "", 0, ""
    node = projection.nodes.get(where.node)
    labels = node.joined.labels if node is not None else {}
    pools = (pool for _, pool in sorted(projection.pools.items()) if pool.has(labels))
    pool = next(pools, None)
    if pool is None:
        return where.model, "", 0, ""
    priced = [model for model in sorted(pool.prices) if is_model(where.model, model)]
    price = pool.prices[max(priced, key=len)] if priced else 0
    return where.model, pool.pool, price, pool.currency if priced else ""


def _add(sums: dict[UsageKey, Used] | dict[tuple[str, ...], Used], key: object, used: Used) -> None:
    had = sums.setdefault(key, Used())  # type: ignore[arg-type]
    had.gpu_us += used.gpu_us
    had.cost_micro += used.cost_micro
