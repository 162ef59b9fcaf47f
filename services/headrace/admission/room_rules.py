"""Whether today's nodes could hold a job at all, and what is nearest when they could not.

Rule: judged on empty nodes; who is using them now is not admission's business.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.admission.derived import of_fleet
from headrace.admission.state import State
from headrace.events.asked import Accelerator, Gang
from headrace.events.nodes import Device, NodeJoined
from headrace.scheduling.cluster import DEVICE_MILLI
from headrace.scheduling.explain import gpus
from headrace.scheduling.kinds import is_kind

REMEMBERED_MAX = 1_024  # shapes of gangs whose warning is kept until a node changes
NAMED_MAX = 4  # nodes or models named in a warning

_ANY = Accelerator(milli=0)


def warning(state: State, gang: Gang) -> str:
    """Why no set of today's nodes can hold the gang; empty when one can."""
    known: dict[Gang, str] = of_fleet(state, "warnings")
    text = known.get(gang)
    if text is None:
        if len(known) >= REMEMBERED_MAX:
            known.clear()
        parts = gang.by_role().values()
        text = known[gang] = next((w for part in parts if (w := _warning(state, part))), "")
    return text


def _warning(state: State, gang: Gang) -> str:
    nodes = [machine.said for _, machine in sorted(state.nodes.items()) if machine.accepting]
    if gang.pools:
        pools = [state.pools[name] for name in gang.pools if name in state.pools]
        nodes = [node for node in nodes if any(pool.has(node.labels) for pool in pools)]
    if gang.python and nodes:
        nodes = [node for node in nodes if gang.python in node.pythons]
        if len(nodes) < gang.nodes:
            return f"accepted, but cannot run today: {len(nodes)} nodes have python {gang.python}"
    volumes = (state.volumes[name] for name in gang.volumes if name in state.volumes)
    for volume in (each for each in volumes if each.label and nodes):
        nodes = [node for node in nodes if node.labels.get(volume.label) == volume.value]
        if len(nodes) < gang.nodes:
            rule = f"{len(nodes)} nodes reach volume {volume.volume}"
            return f"accepted, but cannot run today: {rule} ({volume.label}={volume.value})"
    together: list[str] = []
    apart: list[str] = []
    for kind in gang.accelerators or (_ANY,):
        able = [node for node in nodes if _holds(node, gang, kind)]
        together = max(together, _largest(state, able, gang), key=len)
        if len(together) >= gang.nodes:
            return ""
        anywhere = msgspec.structs.replace(gang, topology_required="")
        apart = max(apart, _largest(state, able, anywhere), key=len)
    if len(apart) >= gang.nodes:
        some = " ".join(apart[:NAMED_MAX])
        nearest = f"nearest: topology.preferred: {gang.topology_required} would fit {some}"
        return f"accepted, but cannot run today: {_missing(gang)}; {nearest}"
    return f"accepted, but cannot run today: {_missing(gang)}; {_nearest(nodes, together, gang)}"


def _holds(node: NodeJoined, gang: Gang, kind: Accelerator) -> bool:
    """Whether the node, if it were empty, could hold one worker."""
    if node.cpu_milli < gang.cpu_milli or node.memory_bytes < gang.memory_bytes:
        return False
    if gang.gpu_memory_bytes:
        return any(device.memory_bytes >= gang.gpu_memory_bytes for device in _of(node, kind))
    return sum(1 for _ in _of(node, kind)) >= -(-kind.milli // DEVICE_MILLI)


def _of(node: NodeJoined, kind: Accelerator) -> Iterator[Device]:
    """The node's healthy devices of that kind."""
    return (device for device in node.devices if device.healthy and is_kind(device, kind))


def _largest(state: State, able: list[NodeJoined], gang: Gang) -> list[str]:
    """The most of these nodes that are in one pool, and in one domain of the level required."""
    pools = [state.pools[name] for name in gang.pools if name in state.pools]
    level = gang.topology_required
    sets: dict[tuple[str, ...], list[str]] = {}
    for node in able:
        pool = next((p.pool for p in pools if p.has(node.labels)), "")
        if not level or level in node.labels:
            sets.setdefault((pool, node.labels.get(level, "")), []).append(node.node)
    return max(sets.values(), key=len, default=[])


def _missing(gang: Gang) -> str:
    wanted = _wanted(gang)
    where = f" of {' or '.join(gang.pools)}" if gang.pools else ""
    if gang.nodes == 1:
        return f"no node{where} has {wanted}"
    together = f" in one {gang.topology_required}" if gang.topology_required else ""
    return f"no {gang.nodes} nodes{where} have {wanted} each{together}"


def _wanted(gang: Gang) -> str:
    parts: list[str] = []
    if gang.accelerators:
        parts.append(" or ".join(_kind(kind) for kind in gang.accelerators))
    if gang.gpu_memory_bytes:
        parts.append(f"{_size(gang.gpu_memory_bytes)} of one GPU")
    if gang.cpu_milli:
        parts.append(f"{gpus(gang.cpu_milli)} CPU{'' if gang.cpu_milli == DEVICE_MILLI else 's'}")
    if gang.memory_bytes:
        parts.append(f"{_size(gang.memory_bytes)} of memory")
    return ", ".join(parts) or "room"


def _nearest(nodes: list[NodeJoined], fitting: list[str], gang: Gang) -> str:
    """What there is."""
    if not nodes:
        return "no node is in that pool" if gang.pools else "no node has joined yet"
    if fitting:
        some = " ".join(fitting[:NAMED_MAX])
        return f"nearest: nodes: {len(fitting)} would fit {some}"
    if lacking := _lacking(nodes, gang):
        return lacking
    kinds = gang.accelerators or (_ANY,)
    counted = [(sum(1 for _ in _of(node, kind)), node.node) for node in nodes for kind in kinds]
    most, name = max(counted, key=lambda found: found[0])
    if gang.accelerators and most:
        return f"nearest: {name} has {most} of that kind"
    models = dict.fromkeys(d.model for node in nodes for d in node.devices if d.healthy)
    return f"there are {', '.join(list(models)[:NAMED_MAX])}" if models else "there are no GPUs"


def _lacking(nodes: list[NodeJoined], gang: Gang) -> str:
    """What no node has enough of beside GPUs, and which has the most of it; empty when that is not
    what is wrong.
    """
    cores = max(nodes, key=lambda node: node.cpu_milli)
    if cores.cpu_milli < gang.cpu_milli:
        return f"{cores.node} has the most CPUs, {gpus(cores.cpu_milli)}"
    memory = max(nodes, key=lambda node: node.memory_bytes)
    if memory.memory_bytes < gang.memory_bytes:
        return f"{memory.node} has the most memory, {_size(memory.memory_bytes)}"
    return ""


def _kind(kind: Accelerator) -> str:
    size = f"-{_size(kind.memory_bytes_min)}" if kind.memory_bytes_min else ""
    return f"{gpus(kind.milli)} × {kind.model or 'GPU'}{size}"


def _size(size_bytes: int) -> str:
    return f"{size_bytes // 10**9}GB" if size_bytes >= 10**9 else f"{size_bytes} bytes"
