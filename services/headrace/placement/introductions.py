"""The passes with which nodes measure the network to each other."""

from __future__ import annotations

import msgspec

from headrace.bus.agents import ProbePass, ProbePeer, ProbePeers, Signed
from headrace.events.nodes import NodeJoined
from headrace.placement.probe_rules import peers_of
from headrace.placement.state import State
from headrace.vault import sign


def introduction(state: State, node: str, grant_key: bytes) -> ProbePeers:
    """Whom the node may ask, with a pass for each."""
    found = peers_of(state, node)
    if not found:
        return ProbePeers()
    mine = state.machines[node].said
    return ProbePeers(
        peers=tuple(_peer(mine, level, said, grant_key) for level, said in found.items())
    )


def _peer(mine: NodeJoined, level: str, said: NodeJoined, grant_key: bytes) -> ProbePeer:
    allowed = ProbePass(node=mine.node, public_key=mine.public_key, peer=said.node)
    document = msgspec.json.encode(allowed)
    return ProbePeer(
        node=said.node,
        address=said.address,
        port=said.probe_port,
        level=level,
        signed=Signed(document=document, signature=sign(grant_key, document)),
    )
