"""What operators ask placement for: to change a node, to apply a pool's document or that of turns."""

from __future__ import annotations

import msgspec

from headrace.bus.subjects import FLEET
from headrace.documents import read_json, read_pool, read_scheduling
from headrace.events import Fact, Refusal
from headrace.events.nodes import NodeChangeRequested
from headrace.events.pools import PoolApplyRequested
from headrace.events.scheduling import SchedulingApplyRequested
from headrace.placement.node_rules import CHANGES
from headrace.runtime.service import Request, Runtime

NAME_LENGTH_MAX = 63


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `node.change`."""

    node: str
    change: str


async def change_node(request: Request, runtime: Runtime) -> Fact | Refusal:
    """The request as a fact; whether there is such a node is decided."""
    del runtime
    if request.project != FLEET:
        rule = "nodes belong to the whole fleet"
        return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
    try:
        asked = msgspec.json.decode(request.body, type=NodeChange)
    except msgspec.MsgspecError as error:
        instead = 'a body {"node": …, "change": …}'
        return Refusal(field="request", rule=str(error)[:200], instead=instead)
    if asked.change not in CHANGES:
        rule = "is not something that can be done to a node"
        return Refusal(
            field="change", value=asked.change[:40], rule=rule, instead=" or ".join(CHANGES)
        )
    if not 0 < len(asked.node) <= NAME_LENGTH_MAX or not asked.node.isprintable():
        return Refusal(field="node", rule=f"a node's id has 1 to {NAME_LENGTH_MAX} characters")
    return NodeChangeRequested(node=asked.node, change=asked.change, user=request.actor)


async def apply_pool(request: Request, runtime: Runtime) -> Fact | Refusal:
    """The document as a fact; whether it can stand beside the other pools is decided."""
    del runtime
    if request.project != FLEET:
        rule = "pools belong to the whole fleet"
        return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
    document = read_json(request.body)
    pool = document if isinstance(document, Refusal) else read_pool(document)
    if isinstance(pool, Refusal):
        return pool
    return PoolApplyRequested(name=pool.pool, pool=pool, user=request.actor)


async def apply_scheduling(request: Request, runtime: Runtime) -> Fact | Refusal:
    """The document of how turns are taken, as a fact."""
    del runtime
    if request.project != FLEET:
        rule = "turns are taken in the same way for the whole fleet"
        return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
    document = read_json(request.body)
    scheduling = document if isinstance(document, Refusal) else read_scheduling(document)
    if isinstance(scheduling, Refusal):
        return scheduling
    return SchedulingApplyRequested(scheduling=scheduling, user=request.actor)
