"""What operators ask placement for: to change a node, to apply a pool's document or that of turns."""

from __future__ import annotations

from collections.abc import Collection

from headrace.documents import read_pool, read_scheduling
from headrace.events import Fact, Refusal
from headrace.events.nodes import NodeChangeRequested
from headrace.events.pools import Pool, PoolApplyRequested, PoolDeleteRequested
from headrace.events.scheduling import (
    Scheduling,
    SchedulingApplyRequested,
    SchedulingDeleteRequested,
)
from headrace.placement.node_rules import CHANGES
from headrace.placement.state import State
from headrace.runtime.asking import Asked, Named, receives, receives_document
from headrace.runtime.service import Receive, Request
from headrace.runtime.suggestions import Names

DEADLINE_US_MAX = 30 * 86_400_000_000
NAME_LENGTH_MAX = 63
POOLS = "pools belong to the whole fleet"
TURNS = "turns are taken in the same way for the whole fleet"


class NodeChange(Asked, frozen=True, kw_only=True):
    """`node.change`; whether there is such a node is decided."""

    node: str
    change: str
    deadline_us: int = 0

    def refusal(self) -> Refusal | None:
        if self.change not in CHANGES:
            rule = "is not something that can be done to a node"
            instead = " or ".join(CHANGES)
            return Refusal(field="change", value=self.change[:40], rule=rule, instead=instead)
        if not 0 <= self.deadline_us <= (DEADLINE_US_MAX if self.change == "drain" else 0):
            rule = f"to drain a node takes 0 to {DEADLINE_US_MAX} µs, nothing else takes time"
            return Refusal(field="deadline_us", value=str(self.deadline_us), rule=rule)
        if not 0 < len(self.node) <= NAME_LENGTH_MAX or not self.node.isprintable():
            rule = f"a node's id has 1 to {NAME_LENGTH_MAX} characters"
            return Refusal(field="node", rule=rule)
        return None


@receives(NodeChange, "nodes belong to the whole fleet")
def change_node(asked: NodeChange, request: Request) -> Fact | Refusal:
    """`node.change`: which node, and what becomes of it."""
    return NodeChangeRequested(
        node=asked.node, change=asked.change, user=request.actor, deadline_us=asked.deadline_us
    )


@receives_document(read_pool, POOLS)
def apply_pool(pool: Pool, request: Request) -> Fact | Refusal:
    """`pool.apply`: its document; whether it can stand beside the others is decided."""
    return PoolApplyRequested(
        name=pool.pool, pool=pool, user=request.actor, document=request.body.decode()
    )


@receives_document(read_scheduling, TURNS)
def apply_scheduling(scheduling: Scheduling, request: Request) -> Fact | Refusal:
    """`scheduling.apply`: its document."""
    return SchedulingApplyRequested(
        scheduling=scheduling, user=request.actor, document=request.body.decode()
    )


@receives(Named, POOLS)
def delete_pool(asked: Named, request: Request) -> Fact | Refusal:
    """`pool.delete`: whether it can go is decided."""
    return PoolDeleteRequested(name=asked.name, user=request.actor)


@receives(Asked, TURNS)
def delete_scheduling(_asked: Asked, request: Request) -> Fact | Refusal:
    """`scheduling.delete`: turns as the platform has it."""
    return SchedulingDeleteRequested(user=request.actor)


RECEIVERS: dict[str, Receive] = {
    "node.change": change_node,
    "pool.apply": apply_pool,
    "pool.delete": delete_pool,
    "scheduling.apply": apply_scheduling,
    "scheduling.delete": delete_scheduling,
}


def names_of(state: State, refusal: Refusal, _project: str) -> Names:
    """The pools or nodes among which an unknown one is looked for."""
    found: dict[str, Collection[str]] = {"pool": state.pools, "node": state.machines}
    return Names(sorted(found.get(refusal.unknown, ())))
