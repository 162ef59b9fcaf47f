"""Fragmentation: how much of a node's free GPUs nobody is expected to use.

Rule: two amounts are wasted. What later arrivals leave over of each device: the expectation, after
`OFFERS` more of them drawn from what has arrived, each taken if it fits. And what the free cores
cannot feed, at the cores per GPU of all that has arrived. A placement is as bad as the waste grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.scheduling.arrivals import Arrivals
from headrace.scheduling.banks import DEVICE_MILLI

OFFERS = 48  # arrivals that each device is expected to be offered
GRAIN_MILLI = 10  # shares are rounded up to this, what is free of a device down
STEP_MILLI = 20  # growth that differs by less is a tie: equal nodes then fill up one by one
STARVED_PART = 4  # a starved GPU may be fed when a neighbour leaves: it counts as one such part
MICRO = 1000  # millionths in a thousandth: the unit of waste


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What arrivals are expected to leave over of a device, in millionths of a GPU, by how many
    thousandths of it are free; and the sums whose ratio is the cores that a GPU needs.
    """

    leftover: tuple[int, ...]
    gpu_milli: int = 0
    cpu_milli: int = 0

    def waste(self, free_milli: Sequence[int], cpu_milli: int) -> int:
        """Millionths of a GPU wasted on a node with so much free of each device and of cores."""
        left = sum(self.leftover[milli] for milli in free_milli)
        return left + self._starved(sum(free_milli), cpu_milli) if self.cpu_milli else left

    def growth(
        self, taken: Iterable[tuple[int, int]], free_milli: int, cpu_milli: int, cpu_taken: int
    ) -> int:
        """How much the waste of a node grows, when of its devices `taken` are (free, taken) pairs,
        and `free_milli` and `cpu_milli` are free in all.
        """
        leftover, left, amount = self.leftover, 0, 0
        for free, milli in taken:
            left += leftover[free - milli] - leftover[free]
            amount += milli
        if not self.cpu_milli:
            return left
        before = self._starved(free_milli, cpu_milli)
        return left + self._starved(free_milli - amount, cpu_milli - cpu_taken) - before

    def steps(self, growth: int) -> int:
        """The growth as it is ranked: in steps, rounded down."""
        return growth // (STEP_MILLI * MICRO)

    def _starved(self, free_milli: int, cpu_milli: int) -> int:
        starved_milli = free_milli - cpu_milli * self.gpu_milli // self.cpu_milli
        return starved_milli * MICRO // STARVED_PART if starved_milli > 0 else 0


def expect(arrivals: Arrivals) -> Expected:
    """What is to be expected after these arrivals; after none, that nothing more will be used."""
    asked = [
        (-(-milli // GRAIN_MILLI), arrivals.devices[milli]) for milli in sorted(arrivals.devices)
    ]
    total = max(1, sum(count for _, count in asked))
    leftover = [grains * GRAIN_MILLI * MICRO for grains in range(DEVICE_MILLI // GRAIN_MILLI + 1)]
    for _ in range(OFFERS if asked else 0):
        leftover = [_after_offer(leftover, free, asked, total) for free in range(len(leftover))]
    return Expected(
        leftover=tuple(leftover[milli // GRAIN_MILLI] for milli in range(DEVICE_MILLI + 1)),
        gpu_milli=arrivals.gpu_milli,
        cpu_milli=arrivals.cpu_milli,
    )


NOTHING_EXPECTED = expect(Arrivals())


def _after_offer(
    leftover: Sequence[int], free: int, asked: Sequence[tuple[int, int]], total: int
) -> int:
    """What is left over of a device with `free` grains once it was offered one more arrival."""
    summed, passed = 0, total
    for grains, count in asked:
        if grains > free:
            break
        summed += count * leftover[free - grains]
        passed -= count
    return (summed + passed * leftover[free]) // total
