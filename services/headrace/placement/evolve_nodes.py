"""How nodes change: joined, silent, heard, cordoned, fenced; what of theirs is in the log.

Rule: a node with another boot id, or one that an operator fenced, runs nothing of what was placed
there before; only silence proves nothing. A device that something happened to takes no work until
the node calls it healthy after it called it faulty, boots anew, or an operator uncordons it.
"""

from __future__ import annotations

from headrace.events import Entry
from headrace.events.attempts import AttemptExited
from headrace.events.gangs import GuardTripped
from headrace.events.members import MemberAdmitted
from headrace.events.nodes import (
    DeviceFaulted,
    NodeAhead,
    NodeChanged,
    NodeChangeRefused,
    NodeChangeRequested,
    NodeFilled,
    NodeHeard,
    NodeHolds,
    NodeJoined,
    NodeSilent,
    still_faulted,
)
from headrace.placement import lineage_rules
from headrace.placement.account_rules import is_selective
from headrace.placement.derived import index_of, settle
from headrace.placement.end_rules import DISK_FULL
from headrace.placement.runs import Exit, Run
from headrace.placement.state import Change, Machine, State
from headrace.scheduling.cluster import Device, Node

Gone = list[tuple[str, int, Exit]]  # job, rank, how: workers proven to have gone


def joined(state: State, entry: Entry, event: NodeJoined) -> Gone:
    """The node says what it has; after another boot everything placed there has gone."""
    before = state.machines.get(event.node)
    same_journal = before is not None and before.said.incarnation == event.incarnation
    broken = {d.device: None for d in event.devices if not d.healthy}
    state.machines[event.node] = Machine(
        said=event,
        joined=entry.position,
        recorded=before.recorded if before is not None and same_journal else 0,
        cordoned=before is not None and before.cordoned,
        kept_bytes=before.kept_bytes if before is not None else 0,
        draining=before.draining if before is not None else 0,
        drains_at_us=before.drains_at_us if before is not None else 0,
        too_full=before is not None and before.too_full,
        tripped=before.tripped if before is not None else {},
        broken=broken,
        faulted=still_faulted(before.faulted, before.said, event) if before is not None else {},
    )
    if before is not None and before.said.boot == event.boot:
        state.machines[event.node].strays = before.strays
        state.machines[event.node].ends_strays = before.ends_strays
    state.nodes[event.node] = _node_of(event, state.nodes.get(event.node))
    if is_selective(event) or (before is not None and is_selective(before.said)):
        index_of(state).rejoined(state)
    refresh(state, event.node)
    lineage_rules.believe(state)
    if before is None or before.said.boot == event.boot:
        for device in event.devices:
            if device.device in broken and (before is None or device.device not in before.broken):
                _disturbed(state, event.node, (device.device, device.fault), entry.position)
        return []
    return _gone(state, event.node, "the machine was restarted", entry.recorded_at_us)


def silent(state: State, entry: Entry, event: NodeSilent) -> Gone:
    """Nothing new goes there; what runs there is left until its lease ends, if it has one."""
    machine = state.machines.get(event.node)
    if machine is None:
        return []
    if not machine.silent:
        machine.silent_at_us = entry.recorded_at_us
    machine.silent_us = max(machine.silent_us, event.silent_us)
    return _hearing(state, event.node, is_silent=True)


def heard(state: State, entry: Entry, event: NodeHeard) -> Gone:
    """It takes work again."""
    del entry
    machine = state.machines.get(event.node)
    if machine is not None:
        machine.silent_us = machine.silent_at_us = 0
    return _hearing(state, event.node, is_silent=False)


def filled(state: State, entry: Entry, event: NodeFilled) -> None:
    """Its disk is too full for more work, or has room again."""
    del entry
    machine = state.machines.get(event.node)
    if machine is not None:
        machine.too_full = event.too_full
        refresh(state, event.node)


def attempt_exited(state: State, event: AttemptExited) -> None:
    """A node without room to start an attempt takes no other before its disk is measured: that may
    take seconds, and each start would end the same way.
    """
    machine = state.machines.get(event.node)
    if machine is not None and event.reason == DISK_FULL:
        machine.too_full = True
        refresh(state, event.node)


def holds(state: State, entry: Entry, event: NodeHolds) -> None:
    """What runs there and was not placed there keeps its devices, and its jobs from starting."""
    del entry
    machine = state.machines.get(event.node)
    if machine is None:
        return
    machine.strays = event.workers
    machine.ends_strays = machine.ends_strays and bool(event.workers)
    refresh(state, event.node)
    lineage_rules.believe(state)


def ahead(state: State, entry: Entry, event: NodeAhead) -> None:
    """It has obeyed what this log lacks."""
    machine = state.machines.get(event.node)
    if machine is not None:
        machine.apart = machine.apart or entry.position
        refresh(state, event.node)


def change_requested(state: State, entry: Entry, event: NodeChangeRequested) -> None:
    """To be decided on."""
    state.changes[entry.position] = Change(
        node=event.node, change=event.change, user=event.user, deadline_us=event.deadline_us
    )


def change_refused(state: State, entry: Entry, event: NodeChangeRefused) -> None:
    """Decided."""
    del event
    state.changes.pop(entry.header.causation, None)


def changed(state: State, entry: Entry, event: NodeChanged) -> Gone:
    """The change is in force. A fenced node is cordoned too, until it is uncordoned."""
    state.changes.pop(entry.header.causation, None)
    machine = state.machines.get(event.node)
    if event.change == "delete":
        _delete(state, event.node)
    if machine is None or event.change == "delete":
        return []
    if event.change != "end-strays":
        machine.cordoned = event.change != "uncordon"
    if event.change == "end-strays":
        machine.ends_strays = bool(machine.strays)
        return []
    machine.draining = entry.position if event.change == "drain" else 0
    machine.drains_at_us = entry.recorded_at_us + event.deadline_us
    if machine.draining:
        index_of(state).watch_moment(machine.drains_at_us)
    if event.change == "uncordon":
        machine.tripped.clear()
        machine.faulted.clear()
    refresh(state, event.node)
    if event.change == "forget":
        state.forgotten[event.node] = entry.position
    if event.change not in ("fence", "forget"):
        return []
    machine.apart, machine.strays, machine.ends_strays = 0, (), False
    refresh(state, event.node)
    lineage_rules.believe(state)
    return _gone(state, event.node, "the node was fenced", entry.recorded_at_us)


def admitted(state: State, _entry: Entry, event: MemberAdmitted) -> None:
    """From here on the holder of these keys is the node."""
    state.members[event.node] = event.box_key


def _delete(state: State, node: str) -> None:
    """There is no such node any more; what its old agent says is not believed."""
    state.members[node] = ""
    state.forgotten.pop(node, None)
    was = state.machines.pop(node, None)
    index_of(state).unsettled.pop(node, None)
    lineage_rules.believe(state)
    state.ports_next.pop(node, None)
    state.nodes.pop(node, None)
    index = index_of(state)
    index.silent.pop(node, None)
    index.changed_nodes[node] = None
    index.total_milli = -1
    if was is not None and is_selective(was.said):
        index.rejoined(state)


def tripped(state: State, entry: Entry, event: GuardTripped) -> None:
    """The device takes no more work until an operator has looked (and uncordons the node)."""
    for name, node in state.nodes.items():
        if any(device.device == event.device for device in node.devices):
            state.machines[name].tripped[event.device] = entry.position
            refresh(state, name)


def faulted(state: State, entry: Entry, event: DeviceFaulted) -> None:
    """What runs on the device is to start anew, elsewhere if the device is to be drained."""
    recorded(state, event.node, event.incarnation, event.report)
    machine = state.machines.get(event.node)
    if machine is None:
        return
    if event.action == "drain":
        machine.faulted[event.device] = event.text
        refresh(state, event.node)
    _disturbed(state, event.node, (event.device, event.text), entry.position)


def recorded(state: State, node: str, incarnation: str, report: int) -> None:
    """A report of the node's journal is in the log."""
    machine = state.machines.get(node)
    if machine is not None and machine.said.incarnation == incarnation:
        machine.recorded = max(machine.recorded, report)


def left(state: State, entry: Entry) -> Gone:
    """All nodes belong to the log that this one was forked from: what runs there is not this log's."""
    gone: Gone = []
    for name in list(state.machines):
        gone += _gone(
            state, name, "its node belongs to the log before the fork", entry.recorded_at_us
        )
        state.machines[name].silent = state.machines[name].cordoned = True
        state.machines[name].apart = entry.position
        state.forgotten[name] = entry.position
        state.members[name] = ""
        refresh(state, name)
    return gone


def forget_gone(node: Node) -> None:
    """Devices that the node no longer has are kept, behind all others, only as long as something is
    booked on them.
    """
    if node.devices and node.devices[-1].index < 0:
        node.devices = [d for d in node.devices if d.index >= 0 or d.used_milli]


def _hearing(state: State, name: str, *, is_silent: bool) -> Gone:
    machine = state.machines.get(name)
    if machine is not None:
        machine.silent = is_silent
        refresh(state, name)
    return []


def refresh(state: State, name: str) -> None:
    """Work out again what the node accepts."""
    machine, node = state.machines[name], state.nodes[name]
    node.accepting = not (machine.silent or machine.cordoned or machine.too_full or machine.apart)
    strayed = {device for worker in machine.strays for device in worker.devices}
    index = index_of(state)
    index.silent.pop(name, None)
    if machine.silent:
        index.silent[name] = None
    index.unsettled.pop(name, None)
    if machine.apart or machine.strays:
        index.unsettled[name] = None
    for device in node.devices:
        refused = any(
            device.device in kind
            for kind in (machine.tripped, machine.broken, machine.faulted, strayed)
        )
        device.usable = device.index >= 0 and not refused
    index.total_milli = -1
    index.changed_nodes[name] = None


def _disturbed(state: State, node: str, fault: tuple[str, str], position: int) -> None:
    """Whatever runs on this device of this node is to start anew, for this fault."""
    for job_id in sorted(index_of(state).on_node.get(node, ())):
        job = state.jobs[job_id]
        run = job.run
        if run is not None and _is_on(run, node, fault[0]):
            run.faulty, run.cause = fault, position
            settle(state, job_id, job)


def _is_on(run: Run, node: str, device: str) -> bool:
    """Whether a worker that may still be there has a share of the device."""
    return any(
        share.device == device
        for worker in run.workers
        if worker.node == node and worker.rank not in run.exits
        for share in worker.devices
    )


def _node_of(event: NodeJoined, before: Node | None) -> Node:
    """The node with its new inventory and its old bookings."""
    used = {d.device: d for d in before.devices} if before is not None else {}
    devices = []
    for found in sorted(event.devices, key=lambda d: (d.index, d.device)):
        old = used.pop(found.device, None)
        devices.append(
            Device(
                device=found.device,
                index=found.index,
                model=found.model,
                memory_bytes=found.memory_bytes,
                profile=found.profile,
                used_milli=old.used_milli if old is not None else 0,
            )
        )
    for old in used.values():  # gone from the machine, yet still booked
        if old.used_milli:
            old.index = -1
            devices.append(old)
    return Node(
        node=event.node,
        address=event.address,
        devices=devices,
        cpu_milli=event.cpu_milli,
        memory_bytes=event.memory_bytes,
        cpu_used_milli=before.cpu_used_milli if before is not None else 0,
        memory_used_bytes=before.memory_used_bytes if before is not None else 0,
    )


def _gone(state: State, node: str, message: str, at_us: int) -> Gone:
    gone: Gone = []
    for job_id in sorted(index_of(state).on_node.get(node, ())):
        run = state.jobs[job_id].run
        for worker in run.workers if run is not None else ():
            if worker.node == node and run is not None and worker.rank not in run.exits:
                end = Exit(reason="lost", message=message, at_us=at_us)
                gone.append((job_id, worker.rank, end))
    return gone
