"""Which reports of a node's agent become facts: those about what the log placed on that node.

Rule: pure, and judged on the state at the moment of receipt. A node proves by its credential who it
is, and by nothing what it says: what the log did not place there is no business of its.
"""

from __future__ import annotations

from headrace.bus.agents import Report
from headrace.events.nodes import NodeJoined
from headrace.placement.state import State


def report_refusal(state: State, node: str, report: Report) -> str:
    """Why the log does not take this report from this node; empty when it does."""
    if report.what == "faulted":
        machine = state.machines.get(node)
        devices = machine.said.devices if machine is not None else ()
        is_own = any(device.device == report.device for device in devices)
        return "" if is_own else "the node has no such device"
    job = state.jobs.get(report.job)
    run = job.run if job is not None else None
    if job is None or run is None:
        return "no attempt of the job runs"
    if report.attempt != run.attempt:
        return f"the live attempt is {run.attempt}"
    worker = run.worker(report.rank)
    if worker is None or worker.node != node:
        return "this worker is not placed on the node"
    return "" if report.project == job.project else "the job is of another project"


def contested_device(state: State, said: NodeJoined) -> tuple[str, str]:
    """A device that the node says it has and that is another's: the device, and which node has it;
    both empty when there is none. A device that left its node is still its own while it is booked.
    """
    mine = {device.device for device in said.devices}
    for name, node in state.nodes.items():
        if name != said.node:
            for device in node.devices:
                if device.device in mine:
                    return device.device, name
    return "", ""
