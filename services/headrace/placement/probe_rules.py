"""Whom a node measures its network to: one other node for each level of its topology.

Rule: pure. For each level, the next by name (after the last comes the first) of those that share that
level and no narrower one, so that whoever asks also spreads: nobody is asked by more than one node
that shares the same level with it.
"""

from __future__ import annotations

from headrace.events.nodes import NodeJoined
from headrace.placement.state import State

FLEET = "fleet"  # the level that all nodes share


def peers_of(state: State, node: str) -> dict[str, NodeJoined]:
    """The peer for each level that has one; none for a node that is not known."""
    if node not in state.machines:
        return {}
    mine = state.machines[node].said
    levels = _levels(state, mine)
    names = sorted(state.machines)
    place = names.index(node)
    found: dict[str, NodeJoined] = {}
    for name in names[place + 1 :] + names[:place]:
        machine = state.machines[name]
        if machine.said.probe_port and not machine.silent:
            found.setdefault(_shared(levels, mine.labels, machine.said.labels), machine.said)
    return {level: found[level] for level in (FLEET, *levels) if level in found}


def _levels(state: State, node: NodeJoined) -> tuple[str, ...]:
    """The levels of the first pool it is in, the widest first."""
    pools = (state.pools[name] for name in sorted(state.pools))
    return next((p.topology for p in pools if p.has(node.labels) and p.topology), ())


def _shared(levels: tuple[str, ...], mine: dict[str, str], theirs: dict[str, str]) -> str:
    """The narrowest level at which both are in the same domain, as in every wider one."""
    shared = FLEET
    for level in levels:
        if not mine.get(level) or mine.get(level) != theirs.get(level):
            break
        shared = level
    return shared
