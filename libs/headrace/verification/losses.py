"""What is said of nodes, and whether anything promised there can still be kept.

Rule: a node is lost when it is silent, its disk is too full for work (or for a start), an operator did
anything to it but uncordon it, or it joins with other hardware, labels, taints or isolation; of its
hardware a device is, that is drained after a fault or whose guard was tripped. A fault after which what
runs there only starts anew takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from headrace.events.gangs import GuardTripped
from headrace.events.nodes import (
    DeviceFaulted,
    NodeChanged,
    NodeChangeRefused,
    NodeFilled,
    NodeHeard,
    NodeJoined,
    NodeSilent,
)

NodeEvent: TypeAlias = (
    DeviceFaulted | GuardTripped | NodeChanged | NodeFilled | NodeHeard | NodeJoined | NodeSilent
)
NODE_EVENTS: tuple[type[NodeEvent], ...] = (
    DeviceFaulted, GuardTripped, NodeChanged, NodeFilled, NodeHeard, NodeJoined, NodeSilent,
)  # fmt: skip
ANSWERS = (NodeChanged, NodeChangeRefused)  # to what an operator asked of a node


class Nodes:
    """The nodes as they joined last."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeJoined] = {}

    def look(self, event: NodeEvent) -> Iterator[tuple[str, bool]]:
        """The nodes that this is about, and whether they, or some of their hardware, are lost."""
        if isinstance(event, GuardTripped):
            for node in self._nodes.values():
                if any(device.device == event.device for device in node.devices):
                    yield node.node, True
        elif isinstance(event, NodeJoined):
            before = self._nodes.get(event.node)
            self._nodes[event.node] = event
            yield event.node, before is None or _hardware(before) != _hardware(event)
        elif isinstance(event, NodeChanged):
            yield event.node, event.change != "uncordon"
        elif isinstance(event, NodeFilled):
            yield event.node, event.too_full
        elif isinstance(event, DeviceFaulted):
            if event.action == "drain":
                yield event.node, True
        else:
            yield event.node, isinstance(event, NodeSilent)


def _hardware(node: NodeJoined) -> tuple[object, ...]:
    said = (node.labels, node.taints, node.isolation, node.trusted)
    return (node.devices, node.cpu_milli, node.memory_bytes, *said)
