"""What administrators do in a simulated history: machines, pools, queues, and changes of mind.

Rule: each document is a whole one, as an administrator would apply it; what changes later is
lowered below use as often as it is raised.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import Any

import msgspec

from headrace.events.nodes import Device

NODES_MIN, NODES_MAX = 1, 4
GPUS_MAX = 4  # per node: small fleets make queues
MODELS = ("H100-80GB", "H100-80GB", "A100-40GB")
PROFILE, SLICES = "1g.10gb", 7  # how a GPU that is cut is cut
DEPARTMENT, PROJECTS = "research", ("vision", "ads")
POOL, LABEL, LEVELS = "train", "pool=train", ("zone", "rack")
CHANGES_MAX = 3  # changes of mind in one history

Document = dict[str, Any]


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """A machine: how many GPUs of which model, how many of those are cut, and its labels."""

    gpus: int
    model: str = MODELS[0]
    cut: int = 0
    labels: dict[str, str] = {}


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The machines, by node, and what administrators apply, with the time of each."""

    nodes: dict[str, Hardware]
    applied: tuple[tuple[float, Document], ...]

    @property
    def gpus(self) -> int:
        """How many whole GPUs there are."""
        return sum(node.gpus - node.cut for node in self.nodes.values())

    @property
    def is_pooled(self) -> bool:
        """Whether some of the nodes are a pool."""
        return any(node.labels for node in self.nodes.values())

    @property
    def has_slices(self) -> bool:
        """Whether GPUs are cut."""
        return any(node.cut for node in self.nodes.values())


def draw(chance: random.Random, until_s: float) -> Fleet:
    """A fleet whose documents are applied before `until_s`."""
    count = chance.randint(NODES_MIN, NODES_MAX)
    is_pooled, has_slices = chance.random() < 0.7, chance.random() < 0.3
    nodes = {f"n{i + 1}": _hardware(chance, i, is_pooled=is_pooled) for i in range(count)}
    if has_slices:
        last = nodes[f"n{count}"]
        nodes[f"n{count}"] = msgspec.structs.replace(last, cut=1)
    gpus = sum(node.gpus for node in nodes.values())
    first = [_department(gpus), *(_project(chance, name, gpus) for name in PROJECTS)]
    if is_pooled:
        first.insert(0, _pool(chance))
    if chance.random() < 0.4:
        first.append(_scheduling(chance))
    later = [
        (chance.uniform(until_s * 0.2, until_s), _changed(chance, chance.choice(first), gpus))
        for _ in range(chance.randint(0, CHANGES_MAX))
    ]
    applied = [*((0.0, document) for document in first), *sorted(later, key=lambda at: at[0])]
    return Fleet(nodes=nodes, applied=tuple(applied))


def _hardware(chance: random.Random, number: int, *, is_pooled: bool) -> Hardware:
    rack = {"pool": POOL, "zone": "z1", "rack": f"r{number // 2}"}
    labels = rack if is_pooled and chance.random() < 0.8 else {}
    return Hardware(gpus=chance.randint(1, GPUS_MAX), model=chance.choice(MODELS), labels=labels)


def _pool(chance: random.Random) -> Document:
    placement = chance.choice(["binpack", "spread", "fragmentation-aware"])
    levels = list(LEVELS if chance.random() < 0.7 else LEVELS[:1])
    return {
        "type": "pool", "name": POOL, "nodes": {"label": LABEL}, "placement": placement,
        "topology": levels,
    }  # fmt: skip


def _scheduling(chance: random.Random) -> Document:
    return {
        "type": "scheduling",
        "past_usage": {"strength": chance.choice([0.5, 1, 2]), "half_life": "60s"},
        "reservations": {"after": chance.choice(["1s", "2s"]), "at_most": chance.randint(1, 8)},
    }


def _department(gpus: int) -> Document:
    return {
        "type": "department", "name": DEPARTMENT, "gpus": {"quota": gpus}, "max_duration": "5s",
    }  # fmt: skip


def _project(chance: random.Random, name: str, gpus: int) -> Document:
    share: Document = {"quota": chance.randint(0, gpus // 2)}
    if chance.random() < 0.3:
        share["limit"] = chance.randint(max(1, share["quota"]), gpus)
    share["over_quota_weight"] = chance.randint(1, 3)
    document: Document = {
        "type": "project", "name": name, "department": DEPARTMENT, "gpus": share,
    }  # fmt: skip
    if chance.random() < 0.4:
        document["users"] = {"fair": "equal"}
    if chance.random() < 0.3:
        document["min_runtime"] = {"preempt": "1s", "reclaim": chance.choice(["1s", "2s"])}
    return document


def _changed(chance: random.Random, document: Document, gpus: int) -> Document:
    """The document as somebody changes it: mostly to less."""
    changed = copy.deepcopy(document)
    if changed["type"] == "pool":
        return {**_pool(chance), "topology": list(LEVELS)}
    if changed["type"] == "scheduling":
        return _scheduling(chance)
    share = changed["gpus"]
    share["quota"] = chance.randint(0, max(0, share["quota"] - 1))
    if changed["type"] == "project" and chance.random() < 0.6:
        share["limit"] = chance.randint(max(1, share["quota"]), max(1, gpus // 2, share["quota"]))
    return changed


def devices_of(whole: Iterable[Device], cut: int) -> tuple[Device, ...]:
    """A node's devices, with so many of them cut into slices."""
    return tuple(part for device in whole for part in _parts(device, cut))


def _parts(device: Device, cut: int) -> list[Device]:
    if device.index >= cut:
        return [device]
    name, size = device.device.replace("GPU-", "MIG-"), device.memory_bytes // (SLICES + 1)
    return [
        msgspec.structs.replace(
            device, device=f"{name}-{number}", memory_bytes=size, profile=PROFILE
        )
        for number in range(SLICES)
    ]
