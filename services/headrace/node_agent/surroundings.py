"""What an agent is given by the process that it runs in.

Rule: everything outside the agent comes through here, so that a simulation can give it another world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.bus.agents import Assignment, Launch, Signed
from headrace.bus.interface import Bus
from headrace.events.nodes import NodeJoined
from headrace.node_agent.device_care import Aside, in_turn
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.gang_network.network import GangNetwork
from headrace.node_agent.journal import Journal
from headrace.node_agent.lease import Lease
from headrace.node_agent.machine import Machine
from headrace.node_agent.probing.prober import Prober
from headrace.node_agent.workplaces.preparing import Workplaces


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the agent is given. `node` says everything but boot and incarnation, which the journal
    knows. `is_granted` tells whether placement signed a document; `unseal` opens a launch or raises
    `Unopenable`; `now_us` is the wall clock. `aside` runs what may keep the agent waiting, `prober`
    measures the network, `workplaces` prepares folders, `is_taken` says if a port is in use,
    `network` fences ports.
    """

    node: NodeJoined
    bus: Bus
    machine: Machine
    journal: Journal
    enforcer: Enforcer
    lease: Lease
    is_granted: Callable[[Signed], bool]
    unseal: Callable[[Assignment], Launch]
    now_us: Callable[[], int]
    aside: Aside = in_turn
    prober: Prober | None = None
    workplaces: Workplaces | None = None
    is_taken: Callable[[int], bool] = lambda _port: False
    network: GangNetwork = field(default_factory=GangNetwork)
