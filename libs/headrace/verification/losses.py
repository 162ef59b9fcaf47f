"""What is said of nodes, and whether anything promised there can still be kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from headrace.events.gangs import GuardTripped
from headrace.events.nodes import DeviceFaulted, NodeChanged, NodeHeard, NodeJoined, NodeSilent

NodeEvent: TypeAlias = (
    DeviceFaulted | GuardTripped | NodeChanged | NodeHeard | NodeJoined | NodeSilent
)
NODE_EVENTS: tuple[type[NodeEvent], ...] = (
    DeviceFaulted, GuardTripped, NodeChanged, NodeHeard, NodeJoined, NodeSilent,
)  # fmt: skip


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
        else:
            yield event.node, isinstance(event, NodeSilent | DeviceFaulted)


def _hardware(node: NodeJoined) -> tuple[object, ...]:
    return (node.devices, node.cpu_milli, node.memory_bytes, node.labels, node.taints)
