"""One worker tried on one node: what a policy judges.

Rule: the node stands as it is before the worker comes; nothing here changes it.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.events.gangs import Share
from headrace.scheduling.cluster import DEVICE_MILLI, Node


class Trial(NamedTuple):
    """The node, and the devices and cores that the worker would get there."""

    node: Node
    shares: tuple[Share, ...]
    cpu_milli: int

    @property
    def taken(self) -> list[tuple[int, int]]:
        """Of each device it would get, the thousandths that are free and that it would take."""
        amounts = {share.device: share.milli for share in self.shares}
        return [
            (DEVICE_MILLI - device.used_milli, amounts[device.device])
            for device in self.node.devices
            if device.device in amounts
        ]

    @property
    def opens(self) -> bool:
        """Whether it would get only devices of which nobody has a share yet."""
        return all(free == DEVICE_MILLI for free, _ in self.taken)
