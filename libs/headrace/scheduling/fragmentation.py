"""Fragmentation: how much of a node's free GPUs nobody is expected to use.

Rule: two amounts are wasted. What later arrivals leave over of each device: the expectation, after
`OFFERS` more of them drawn from what has arrived, each taken if it fits. And what the free cores
keep from being used: how much more is left over of the node than if it had cores for all. A
placement is as bad as the waste grows; where it grows alike, as bad as it splits what requests for
several GPUs need together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from headrace.scheduling.arrivals import CPU_MILLI, CPU_MILLI_MAX, SHARE_MILLI, Arrivals
from headrace.scheduling.banks import DEVICE_MILLI

OFFERS = 48  # arrivals that each device and, on average, each node is expected to be offered
GRAIN_MILLI = 10  # shares are rounded up to this, what is free of a device down
STEP_MILLI = 100  # growth that differs by less is a tie: then nodes are kept whole, and fill up
NODE_MILLI = 8 * DEVICE_MILLI  # a node with more free GPUs counts as several that are alike
WHOLES_MAX = 64  # a node with more whole GPUs counts as one with so many
REQUESTS_MAX = 64  # the most frequent requests by GPUs and cores: others are not expected again
MICRO = 1000  # millionths in a thousandth: the unit of waste

Request = tuple[int, int, int]  # grains of GPUs, grains of cores, how often


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What arrivals are expected to leave over, in millionths of a GPU: of a device, by how many
    thousandths of it are free, and of a node because of its cores, by how many `SHARE_MILLI` of
    GPUs and `CPU_MILLI` of cores are. `odd`: of so many whole GPUs, those over which cannot be part
    of what a request for several needs, summed over these.
    """

    leftover: tuple[int, ...]
    unfed: tuple[tuple[int, ...], ...] = ()
    odd: tuple[int, ...] = ()

    def waste(self, free_milli: Sequence[int], cpu_milli: int) -> int:
        """Millionths of a GPU wasted on a node with so much free of each device and of cores."""
        left = sum(self.leftover[milli] for milli in free_milli)
        return left + self._unfed(sum(free_milli), cpu_milli)

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
        if not self.unfed:
            return left
        before = self._unfed(free_milli, cpu_milli)
        return left + self._unfed(free_milli - amount, cpu_milli - cpu_taken) - before

    def steps(self, growth: int) -> int:
        """The growth as it is ranked: in steps, rounded down."""
        return growth // (STEP_MILLI * MICRO)

    def split(self, wholes: int, taken: int) -> int:
        """How many GPUs more cannot be part of what requests for several need on one node, over all
        such requests, when of its `wholes` free devices `taken` are not whole any more.
        """
        odd = self.odd
        left = max(0, wholes - taken)  # of one kind more may be promised than there will be
        return odd[min(left, WHOLES_MAX)] - odd[min(left + taken, WHOLES_MAX)]

    def _unfed(self, free_milli: int, cpu_milli: int) -> int:
        if free_milli > NODE_MILLI:
            nodes = -(-free_milli // NODE_MILLI)
            return nodes * self._unfed(free_milli // nodes, cpu_milli // nodes)
        if free_milli < SHARE_MILLI or cpu_milli >= CPU_MILLI_MAX or not self.unfed:
            return 0
        return self.unfed[free_milli // SHARE_MILLI][cpu_milli // CPU_MILLI]


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
        unfed=_unfed_nodes(arrivals),
        odd=tuple(_odd(wholes, arrivals) for wholes in range(WHOLES_MAX + 1)),
    )


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


def _odd(wholes: int, arrivals: Arrivals) -> int:
    """Of so many GPUs, those over which cannot be part of what a request needs, over all requests."""
    return sum(
        wholes % (milli // DEVICE_MILLI) * sum(counts.values())
        for milli, counts in arrivals.requests.items()
        if milli > DEVICE_MILLI
    )


def _unfed_nodes(arrivals: Arrivals) -> tuple[tuple[int, ...], ...]:
    """For each amount of free GPUs and of free cores, how much more is left over of a node than
    with the most cores of the table; nothing when no request has cores.
    """
    asked = [
        (count, gpus // SHARE_MILLI, cores // CPU_MILLI)
        for gpus, counts in arrivals.requests.items()
        for cores, count in counts.items()
    ]
    asked.sort(key=lambda one: (-one[0], one[1:]))
    often = sorted((gpus, cores, count) for count, gpus, cores in asked[:REQUESTS_MAX])
    if not any(cores for _, cores, _ in often):
        return ()
    left: list[tuple[int, ...]] = []
    for gpus in range(NODE_MILLI // SHARE_MILLI + 1):
        left.append(_left_of_nodes(gpus, left, often))
    return tuple(tuple(milli - row[-1] for milli in row) for row in left)


def _left_of_nodes(
    gpus: int, smaller: Sequence[Sequence[int]], asked: Sequence[Request]
) -> tuple[int, ...]:
    """What is left over of a node with so many grains of GPUs free, for each amount of cores, once
    no more is offered: that is as likely after each offer, and after `OFFERS` on average. Of nodes
    with less free GPUs it is known.
    """
    total, steps = sum(count for _, _, count in asked), CPU_MILLI_MAX // CPU_MILLI + 1
    left = [total * gpus * SHARE_MILLI * MICRO] * steps
    weights = [total] + [0] * (steps - 1)
    for one, cores, count in asked:
        if one > gpus:
            break
        weight = OFFERS * count
        weights[cores] += weight
        after = zip(left[cores:], smaller[gpus - one], strict=False)
        left[cores:] = [milli + weight * more for milli, more in after]
    return tuple(milli // weight for milli, weight in zip(left, accumulate(weights), strict=True))


NOTHING_EXPECTED = expect(Arrivals())
