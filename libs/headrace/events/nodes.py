"""Nodes: what a machine offers, whether it is heard, and what an operator did to it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.accounts import BY_ACCOUNTS
from headrace.events.base import Decision, Fact, Refusal


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU, or one MIG slice of one: its UUID, its index on the node, model (`H100-80GB`) and
    memory as the driver says. A slice has its `profile` and its `parent`'s UUID; `island` names the
    GPUs of a node that NVLink or xGMI joins ("": not known). `fault` says why it is not `healthy`.
    """

    device: str
    index: int
    model: str
    memory_bytes: int
    kind: str = "nvml"  # nvml | amd | static | simulated
    healthy: bool = True
    vendor: str = "nvidia"
    profile: str = ""
    island: str = ""
    parent: str = ""
    fault: str = ""


class NodeJoined(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.joined.v1"):
    """A node agent said what its machine has. Repeated whenever that or the boot changes.

    `boot` is the kernel's boot id, `incarnation` names the agent's journal: reports are numbered
    within it. `public_key` (X25519, base64) is what launches for this node are sealed to. Among the
    `labels` are its site and its domain at each level of a topology. Only who tolerates all of its
    `taints` is placed on it. At `probe_port` of its address it lets other nodes measure the network
    (0: it does not); `bandwidth` is what it measured itself, in bytes a second, to a node with which
    it shares that level of a topology and none narrower (`fleet`: no level). `engine` is the container
    engine that runs jobs with an image there, for people (empty: none does). `pausing` is what its
    driver was found to do with running processes: checkpoint (move what they have on a GPU to memory
    and back), migrate (back to another GPU), ipc (of processes that share GPU memory). `isolation` is
    how it keeps jobs from its keys and from each other: accounts, user-namespaces or none; where it is
    none, only jobs of the user `trusted` run there (`*`: everybody's, as an administrator wanted).
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
    probe_port: int = 0
    bandwidth: dict[str, int] = {}
    engine: str = ""
    pausing: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()  # versions of the interpreters there
    isolation: str = BY_ACCOUNTS
    trusted: str = ""


class HeldWorker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, order=True):
    """A worker whose processes run on a node, with the devices that they hold."""

    job: str
    attempt: int
    rank: int
    project: str = ""
    devices: tuple[str, ...] = ()


class NodeHolds(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.holds.v1"):
    """What runs on the node and this log has not placed there, all of it; empty when nothing does any
    more. Their devices take no work, and their jobs are not started elsewhere, until they have ended:
    by themselves or because an operator had them ended.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    incarnation: str
    workers: tuple[HeldWorker, ...] = ()


class NodeAhead(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.ahead.v1"):
    """The node's agent has obeyed position `obeyed` of this log, which ended at `head` then: the log
    is an older copy of itself. The node takes no work until the log says that it was restored.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    obeyed: int
    head: int


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


class NodeFilled(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.filled.v1"):
    """The disk with the node's folder is `used_permille` full. While that is `too_full`, the node
    takes no work.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    used_permille: int
    too_full: bool


class NodeChangeRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.change_requested.v1"
):
    """An operator asked for `change`: cordon, uncordon, drain, fence, delete, forget or end-strays.

    To drain is to cordon, to let its jobs run on for `deadline_us`, and then to ask those that are left
    to save themselves and move. To end strays is to have the workers ended that run there and that the
    log has not placed. To fence is to state that nothing runs on that
    machine any more; to forget it, that it never comes back.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    change: str
    user: str = ""
    deadline_us: int = 0


class NodeChanged(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="node.changed.v1"):
    """The change is in force; jobs of a drained node are asked to move `deadline_us` later. Fenced or forgotten, it gives up these jobs' attempts; deleted, there
    is no such node any more and its keys are worth nothing.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    change: str
    given_up: tuple[str, ...] = ()
    deadline_us: int = 0


class NodeContested(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.contested.v1"):
    """A second agent, with journal `incarnation` on `host`, said it was this node while the first
    was heard. It was turned away; nothing of the node has changed.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    host: str
    boot: str
    incarnation: str


class NodeReportRefused(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node.report_refused.v1"
):
    """The node's agent reported something about an attempt that the log has not placed there, or a
    device that is not the node's: it is not believed, and `reason` says why. `count` such reports
    came since the event before; what is here is the last one.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    what: str
    job: str
    attempt: int
    rank: int
    device: str
    reason: str
    count: int


class DeviceContested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="device.contested.v1"
):
    """An agent of `node`, on `host`, said that it has a `device` which the log has on the node
    `holder`. It was turned away; nothing has changed.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    host: str
    device: str
    holder: str


class NodeChangeRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="node.change_refused.v1"
):
    """The change cannot be made, and why."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "node/{node}"
    node: str
    refusal: Refusal


class DeviceFaulted(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="device.faulted.v1"):
    """Something went wrong on a device, as its node's driver said in `text`; `code` is the vendor's
    (an XID; 0: none). What runs there is to start anew; with the `action` drain (not restart) the
    device takes no more work until it is said to be healthy or an operator uncordons the node.
    `report` numbers it in the node's journal `incarnation`; `at_us` is the node's clock.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "device/{device}"
    node: str
    device: str
    incarnation: str
    report: int
    action: str
    text: str
    code: int = 0
    at_us: int = 0


def still_faulted(faults: dict[str, str], before: NodeJoined, now: NodeJoined) -> dict[str, str]:
    """Which of these faults of a node's devices (device: what happened) are not over when it joins
    again: a boot mends, and so does its word that a device it called faulty is healthy.
    """
    if before.boot != now.boot:
        return {}
    faulty = {device.device for device in before.devices if not device.healthy}
    healthy = {device.device for device in now.devices if device.healthy}
    mended = faulty & healthy
    return {device: text for device, text in faults.items() if device not in mended}


def not_heard_text(node: str) -> str:
    """What to do about a node that has not followed to a restored log yet."""
    return (
        "does not follow the restored log yet: start its agent; if the machine is lost,"
        f" headrace node forget {node}"
    )


def ahead_text(_node: str) -> str:
    """What to do about a node that knows more of the log than there is of it."""
    return (
        "has obeyed what this log lacks, so the log is an older copy of itself: headrace down, then"
        " headrace up --restored"
    )


def strays_text(node: str, workers: tuple[HeldWorker, ...]) -> str:
    """What to do about what runs on a node and was not placed there."""
    jobs = ", ".join(dict.fromkeys(worker.job for worker in workers))
    return (
        f"runs what this log has not placed there ({jobs[:100]}), which keeps its GPUs until it ends:"
        f" headrace node end-strays {node} ends it"
    )
