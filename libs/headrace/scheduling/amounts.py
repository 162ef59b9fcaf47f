"""Amounts of the three resources that are shared: GPUs, CPU and memory.

Rule: an amount is a plain tuple of integers (thousandths of a GPU, thousandths of a core, bytes);
`UNLIMITED` only ever stands in a bound.
"""

from __future__ import annotations

from collections.abc import Iterable

Amounts = tuple[int, int, int]

GPU, CPU, MEMORY = RESOURCES = (0, 1, 2)
UNLIMITED = -1
NOTHING: Amounts = (0, 0, 0)
EVERYTHING: Amounts = (UNLIMITED, UNLIMITED, UNLIMITED)


def plus(one: Amounts, other: Amounts) -> Amounts:
    """Both together."""
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def minus(one: Amounts, other: Amounts) -> Amounts:
    """What is left of `one` without `other`; may be below nothing."""
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])


def times(amount: Amounts, many: int) -> Amounts:
    """So many of it."""
    return (amount[0] * many, amount[1] * many, amount[2] * many)


def total(amounts: Iterable[Amounts]) -> Amounts:
    """All of them together."""
    gpu = cpu = memory = 0
    for amount in amounts:
        gpu += amount[0]
        cpu += amount[1]
        memory += amount[2]
    return (gpu, cpu, memory)


def within(amount: Amounts, bound: Amounts) -> bool:
    """Whether no resource exceeds its bound."""
    return all(
        limit == UNLIMITED or have <= limit for have, limit in zip(amount, bound, strict=True)
    )


def at_most(bound: int, other: int) -> int:
    """The tighter of two bounds."""
    if bound == UNLIMITED:
        return other
    return bound if other == UNLIMITED else min(bound, other)


def at_least(bound: int, other: int) -> int:
    """The wider of two bounds."""
    return UNLIMITED if UNLIMITED in (bound, other) else max(bound, other)
