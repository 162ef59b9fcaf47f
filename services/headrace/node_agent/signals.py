"""What the agent says of its node unasked: hello, and heartbeats."""

from __future__ import annotations

import msgspec

from headrace.bus.agents import Hello, Signal
from headrace.events.nodes import NodeJoined
from headrace.node_agent.devices import Devices
from headrace.node_agent.machine import Machine

_ENCODER = msgspec.json.Encoder()


def hello_of(node: NodeJoined, machine: Machine) -> bytes:
    """Who this node is, and what runs on it."""
    held = ((key, machine.look(key)) for key in machine.held())
    running = tuple(key for key, seen in held if seen is not None and seen.end is None)
    return _ENCODER.encode(Hello(node=node, running=running))


def signal_of(node: str, incarnation: str, machine: Machine, devices: Devices) -> bytes:
    """The heartbeat now, with a sample of each device."""
    busy: dict[str, int] = {}
    running = 0
    for key in machine.held():
        seen = machine.look(key)
        if seen is not None and seen.end is None:
            running += 1
            for share in () if seen.is_away else seen.shares:
                busy[share.device] = busy.get(share.device, 0) + share.milli
    samples = devices.samples(busy)
    said = Signal(node=node, incarnation=incarnation, samples=samples, running=running)
    return _ENCODER.encode(said)
