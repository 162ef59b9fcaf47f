"""Nodes: what a machine offers, whether it is heard, and what an operator did to it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU, or one MIG slice of one: its UUID, its index on the node, model (`H100-80GB`) and
    memory as the driver says. A slice has its `profile`; `island` names the GPUs of a node that
    NVLink joins ("": not known).
    """

    device: str
    index: int
    model: str
    memory_bytes: int
    kind: str = "nvml"  # nvml | simulated
    healthy: bool = True
    vendor: str = "nvidia"
    profile: str = ""
    island: str = ""


class NodeJoined(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.joined.v1"):
    """A node agent said what its machine has. Repeated whenever that or the boot changes.

    `boot` is the kernel's boot id, `incarnation` names the agent's journal: reports are numbered
    within it. `public_key` (X25519, base64) is what launches for this node are sealed to. Among the
    `labels` are its site and its domain at each level of a topology. Only who tolerates all of its
    `taints` is placed on it. `pausing` is what its driver was found to do with running processes:
    checkpoint (move what they have on a GPU to memory and back), migrate (back to another GPU),
    ipc (of processes that share GPU memory).
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    host: str
    address: str
    boot: str
    incarnation: str
    public_key: str
    devices: tuple[Device, ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0
    port_first: int = 20000
    port_last: int = 29999
    labels: dict[str, str] = {}
    version: str = ""
    taints: tuple[str, ...] = ()
    pausing: tuple[str, ...] = ()


class NodeSilent(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.silent.v1"):
    """Nothing was heard from the node for `silent_us`, by placement's own steady clock; recorded
    again when that reaches a lease's end. What runs there is left running but for such leases.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    silent_us: int = 0


class NodeHeard(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.heard.v1"):
    """A silent node is heard again."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str


class NodeChangeRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.change_requested.v1"
):
    """An operator asked for `change`: cordon, uncordon, or fence.

    To fence is to state that nothing runs on that machine any more.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    change: str
    user: str = ""


class NodeChanged(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="node.changed.v1"):
    """The change is in force."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    change: str


class NodeChangeRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="node.change_refused.v1"
):
    """The change cannot be made, and why."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    refusal: Refusal
