"""Why a job waits, in numbers and in one line.

Rule: pure, and asked of the same model that decides; nothing here is ever decided on.
"""

from __future__ import annotations

import msgspec

from headrace.events.jobs import Accelerator, Gang
from headrace.scheduling.cluster import DEVICE_MILLI, Node, Scratch
from headrace.scheduling.fitting import matching, shares_on
from headrace.scheduling.tree import Gate, Tree


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule that keeps a job waiting, its numbers and names, and the line a person reads.

    `rule` is one of held, unknown-project, limit, quota, no-such-gpu, no-room, next, stopping,
    running.
    """

    rule: str
    text: str
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}


def why_waiting(
    scratch: Scratch, tree: Tree, gang: Gang, queue: str, *, firm: bool, behind: str = ""
) -> Explanation:
    """What has to change before this gang of `queue` is placed. `behind` is the job of the same
    queue that comes first, if any.
    """
    if queue not in tree.queues:
        text = f"project {queue} does not exist; headrace apply creates it"
        return Explanation(rule="unknown-project", text=text, names={"project": queue})
    gate = tree.gate(queue, asked_milli(gang), firm=firm)
    if gate is not None:
        return _gated(gate, gang)
    return _room(scratch, gang, behind)


def asked_milli(gang: Gang) -> int:
    """Thousandths of GPUs the whole gang asks for (its first preference); 0 when it asks for
    memory of a GPU, which is a share that depends on the GPU.
    """
    if gang.gpu_memory_bytes or not gang.accelerators:
        return 0
    return gang.accelerators[0].milli * gang.nodes


def gpus(milli: int) -> str:
    """`2500` as people write it: 2.5."""
    whole, part = divmod(milli, DEVICE_MILLI)
    return f"{whole}.{part:03d}".rstrip("0").rstrip(".") if part else str(whole)


def _gated(gate: Gate, gang: Gang) -> Explanation:
    asked = asked_milli(gang)
    kind = "hold at most" if gate.rule == "limit" else "hold without preemption at most"
    text = (
        f"{gate.queue} may {kind} {gpus(gate.allowed_milli)} GPUs and holds "
        f"{gpus(gate.used_milli)}; this needs {gpus(asked)}"
    )
    numbers = {"allowed_milli": gate.allowed_milli, "used_milli": gate.used_milli}
    return Explanation(
        rule=gate.rule,
        text=text,
        numbers=numbers | {"needs_milli": asked},
        names={"queue": gate.queue},
    )


def _room(scratch: Scratch, gang: Gang, behind: str) -> Explanation:
    nodes = [scratch.node(name) for name in scratch.names()]
    kinds = gang.accelerators or (Accelerator(milli=0),)
    fits = max(_count(nodes, gang, kind) for kind in kinds)
    could = max(_count([_empty(node) for node in nodes], gang, kind) for kind in kinds)
    numbers = {"nodes_needed": gang.nodes, "nodes_free": fits, "nodes_able": could}
    if could < gang.nodes:
        text = f"needs {_wanted(gang)}; only {could} of {len(nodes)} nodes could ever hold that"
        return Explanation(rule="no-such-gpu", text=text, numbers=numbers)
    if fits < gang.nodes:
        free = sum(_free_milli(node, kinds) for node in nodes if node.accepting)
        text = f"needs {_wanted(gang)}; {fits} free now ({gpus(free)} GPUs free in all)"
        numbers["free_milli"] = free
        return Explanation(rule="no-room", text=text, numbers=numbers)
    text = f"fits; {behind} comes first" if behind else "fits and is placed next"
    names = {"behind": behind} if behind else {}
    return Explanation(rule="next", text=text, numbers=numbers, names=names)


def _wanted(gang: Gang) -> str:
    nodes = f"{gang.nodes} node{'s' if gang.nodes > 1 else ''} with "
    if gang.gpu_memory_bytes:
        return f"{nodes}{gang.gpu_memory_bytes // 10**9} GB of one GPU each"
    if not gang.accelerators:
        return f"{nodes}{gpus(gang.cpu_milli)} CPUs each"
    kinds = " or ".join(f"{kind.model or 'GPU'}:{gpus(kind.milli)}" for kind in gang.accelerators)
    return f"{nodes}{kinds} each"


def _count(nodes: list[Node], gang: Gang, kind: Accelerator) -> int:
    return sum(1 for n in nodes if n.accepting and shares_on(n, gang, kind) is not None)


def _empty(node: Node) -> Node:
    """The node as if nothing ran on it and it were heard."""
    empty = node.copy()
    empty.cpu_used_milli = empty.memory_used_bytes = 0
    empty.accepting = True
    for device in empty.devices:
        device.used_milli = 0
    return empty


def _free_milli(node: Node, kinds: tuple[Accelerator, ...]) -> int:
    free = {d.device: DEVICE_MILLI - d.used_milli for kind in kinds for d in matching(node, kind)}
    return sum(free.values())
