"""Whether today's nodes could hold a job at all, and what is nearest when they could not.

Rule: judged on empty nodes; who is using them now is not admission's business.
"""

from __future__ import annotations

from headrace.admission.state import State
from headrace.events.jobs import Accelerator, Gang
from headrace.scheduling.cluster import Node
from headrace.scheduling.explain import gpus
from headrace.scheduling.fitting import matching, shares_on

REMEMBERED_MAX = 1_024  # shapes of gangs whose warning is kept until a node changes
NAMED_MAX = 4  # nodes or models named in a warning

_ANY = Accelerator(milli=0)


def warning(state: State, gang: Gang) -> str:
    """Why no set of today's nodes can hold the gang; empty when one can."""
    known: dict[Gang, str] = state.__dict__.setdefault("warnings", {})
    text = known.get(gang)
    if text is None:
        if len(known) >= REMEMBERED_MAX:
            known.clear()
        text = known[gang] = _warning(state, gang)
    return text


def _warning(state: State, gang: Gang) -> str:
    nodes = [node for _, node in sorted(state.nodes.items()) if node.accepting]
    fitting: list[str] = []
    for kind in gang.accelerators or (_ANY,):
        able = [node.node for node in nodes if shares_on(node, gang, kind) is not None]
        if len(able) >= gang.nodes:
            return ""
        fitting = max(fitting, able, key=len)
    return f"accepted, but cannot run today: {_missing(gang)}; {_nearest(nodes, fitting, gang)}"


def _missing(gang: Gang) -> str:
    wanted = _wanted(gang)
    if gang.nodes == 1:
        return f"no node has {wanted}"
    return f"no {gang.nodes} nodes have {wanted} each"


def _wanted(gang: Gang) -> str:
    parts: list[str] = []
    if gang.accelerators:
        parts.append(" or ".join(_kind(kind) for kind in gang.accelerators))
    if gang.gpu_memory_bytes:
        parts.append(f"{_size(gang.gpu_memory_bytes)} of one GPU")
    if gang.cpu_milli:
        parts.append(f"{gpus(gang.cpu_milli)} CPUs")
    if gang.memory_bytes:
        parts.append(f"{_size(gang.memory_bytes)} of memory")
    return ", ".join(parts) or "room"


def _nearest(nodes: list[Node], fitting: list[str], gang: Gang) -> str:
    """What there is."""
    if not nodes:
        return "no node has joined yet"
    if fitting:
        some = " ".join(fitting[:NAMED_MAX])
        return f"nearest: nodes: {len(fitting)} would fit {some}"
    kinds = gang.accelerators or (_ANY,)
    counted = [
        (sum(1 for _ in matching(node, kind)), node.node) for node in nodes for kind in kinds
    ]
    most, name = max(counted, key=lambda found: found[0])
    if gang.accelerators and most:
        return f"nearest: {name} has {most} of that kind"
    models = dict.fromkeys(d.model for node in nodes for d in node.devices if d.usable)
    return f"there are {', '.join(list(models)[:NAMED_MAX])}" if models else "there are no GPUs"


def _kind(kind: Accelerator) -> str:
    size = f"-{_size(kind.memory_bytes_min)}" if kind.memory_bytes_min else ""
    return f"{gpus(kind.milli)} × {kind.model or 'GPU'}{size}"


def _size(size_bytes: int) -> str:
    return f"{size_bytes // 10**9}GB" if size_bytes >= 10**9 else f"{size_bytes} bytes"
