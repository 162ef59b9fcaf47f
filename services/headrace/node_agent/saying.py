"""What a node says of itself when it meets placement, and again whenever that changes."""

from __future__ import annotations

import msgspec

from headrace.bus.agents import Hello
from headrace.events.nodes import HeldWorker, NodeJoined
from headrace.node_agent.device_care import DeviceCare
from headrace.node_agent.journal import Journal
from headrace.node_agent.machine import Machine
from headrace.node_agent.probing.prober import Prober

_ENCODER = msgspec.json.Encoder()


class Saying:
    """One node's. `node` says what never changes; `prober` is None where nobody measures."""

    def __init__(
        self,
        node: NodeJoined,
        journal: Journal,
        machine: Machine,
        care: DeviceCare,
        prober: Prober | None,
    ) -> None:
        self._node, self._journal, self._machine = node, journal, machine
        self._care, self._prober = care, prober

    def said(self) -> NodeJoined:
        """What the node is, and has, now."""
        header, prober = self._journal.header, self._prober
        return msgspec.structs.replace(
            self._node,
            boot=header.boot,
            incarnation=header.incarnation,
            devices=self._care.inventory,
            engine=self._machine.engine,
            probe_port=prober.port if prober is not None else 0,
            bandwidth=prober.bandwidth if prober is not None else {},
        )

    def hello(self) -> bytes:
        """The same with the attempts whose processes are here."""
        held = ((key, self._machine.look(key)) for key in self._machine.held())
        running = tuple(
            HeldWorker(
                job=key.job,
                attempt=key.attempt,
                rank=key.rank,
                project=seen.project,
                devices=tuple(share.device for share in seen.shares),
            )
            for key, seen in held
            if seen is not None and seen.end is None
        )
        hello = Hello(node=self.said(), running=running, lineage=self._journal.lineage.name)
        return _ENCODER.encode(hello)
