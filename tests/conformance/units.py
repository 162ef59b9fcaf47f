"""Unit scenarios: the division of fair shares and the rules of reclaim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.scheduling.amounts import Amounts
from headrace.scheduling.division import GRAINS
from headrace.scheduling.legality import Standing, Taker, is_legal, may_lose, may_take
from headrace.scheduling.shares import Claim, divide, divide_over_quota

NAMES = ("GPU", "CPU", "Memory")
WEIGHT_SCALE = 1000
UNITS = (1000, 1, 1)


def fair_share_failures(case: dict[str, Any]) -> list[str]:
    """What differs from the expected shares, to the nearest thousandth."""
    failures = []
    for resource in case["resources"]:
        index = NAMES.index(resource)
        unit = UNITS[index]
        total = _amount(case["total"].get(resource, 0), unit)
        claims = [_claim(key, queue, resource, unit) for key, queue in case["queues"].items()]
        before = {
            key: _amount(queue[resource]["fair_share_before"], unit)
            for key, queue in case["queues"].items()
        }
        if case["over_quota_phase_only"]:
            shares = before
            left = divide_over_quota(claims, shares, total, GRAINS[index])
        else:
            shares = divide(claims, total, GRAINS[index], round(case["k_value"] * 1000))
            left = max(0, total - sum(shares.values()))
        for what, expected in case["expected"].items():
            parts = what.split(".")
            if parts[0] == "remaining":
                got: int | None = left
            elif parts[2] == resource:
                got = shares[parts[1]]
            else:
                continue
            if got != _amount(expected, unit):
                failures.append(f"{resource} {what}: {got}, expected {expected}")
    return failures


def reclaim_failures(case: dict[str, Any]) -> list[str]:
    """Whether the rule's answer is another than expected."""
    standings = {
        name: Standing(
            parent=queue["parent"],
            quota=_all(lambda r, q=queue: q[r]["deserved"]),
            limit=_all(lambda r, q=queue: q[r]["max_allowed"]),
            share=_all(lambda r, q=queue: q[r]["fair_share"]),
            held=_all(lambda r, q=queue: q[r]["allocated"]),
            firm=_all(lambda r, q=queue: q[r]["allocated_non_preemptible"]),
        )
        for name, queue in case["queues"].items()
    }
    given = case["reclaimer"]
    taker = Taker(
        queue=given["queue"],
        request=_all(lambda r: given["request"][r]),
        preemptible=given["preemptible"],
    )
    if case["fn"] == "CanReclaimResources":
        got = may_take(standings, taker)
    elif case["fn"] == "FilterVictim":
        got = may_lose(standings, taker, case["victim_queue"])
    else:
        chunks = {
            name: [_all(lambda r, p=piece: p[r]) for piece in pieces]
            for name, pieces in case["victims"].items()
        }
        got = is_legal(standings, taker, chunks)
    expected = case["expected"]["result"]
    return [] if got == expected else [f"{case['fn']} is {got}, expected {expected}"]


def _claim(key: str, queue: dict[str, Any], resource: str, unit: int) -> Claim:
    given = queue[resource]
    return Claim(
        queue=key,
        quota_milli=_amount(given["deserved"], unit),
        limit_milli=_amount(given["max_allowed"], unit),
        weight=round(given["over_quota_weight"] * WEIGHT_SCALE),
        priority=queue["priority"],
        request_milli=_amount(given["request"], unit),
        age=queue["created"],
    )


def _amount(value: float, unit: int) -> int:
    return -1 if value == -1 else round(value * unit)


def _all(read: Callable[[str], float]) -> Amounts:
    gpu, cpu, memory = (_amount(read(name), unit) for name, unit in zip(NAMES, UNITS, strict=True))
    return (gpu, cpu, memory)
