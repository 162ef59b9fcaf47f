"""Where what has left its devices could go on: on those that it had, or on others of its nodes.

Rule: a function of the state; the processes stay on their nodes, and nothing here decides.
"""

from __future__ import annotations

from headrace.events.gangs import Worker
from headrace.placement.account_rules import lack_of
from headrace.placement.state import Job, State
from headrace.scheduling.cluster import DEVICE_MILLI


def takes_part(state: State, job: Job) -> bool:
    """Whether the scheduling core is to know of this job: it holds devices, or could get some now.
    What is kept of it goes nowhere else, so it asks for nothing while that cannot be had.
    """
    run = job.run
    if run is None:
        return job.waiting and not lack_of(state, job)
    if run.booked:
        return True
    return job.waiting and all(migrates(state, w) or has_own(state, w) for w in run.workers)


def migrates(state: State, worker: Worker) -> bool:
    """Whether what the worker had on its devices can go to others of its node; slices of one never
    do, as a driver maps whole devices only.
    """
    machine, node = state.machines.get(worker.node), state.nodes.get(worker.node)
    if machine is None or node is None or "migrate" not in machine.said.pausing:
        return False
    mine = {share.device for share in worker.devices}
    return not any(device.profile for device in node.devices if device.device in mine)


def has_own(state: State, worker: Worker) -> bool:
    """Whether the very devices that the worker has left are free."""
    node = state.nodes.get(worker.node)
    free = {d.device: DEVICE_MILLI - d.used_milli for d in node.devices if d.usable} if node else {}
    return all(free.get(share.device, -1) >= share.milli for share in worker.devices)
