"""Takes one worker's processes off their GPUs and back, step by step of the ladder.

Rule: may be interrupted anywhere and called again. A process that is checkpointed does not run at
all: it would hold a CPU, and could find out that its GPUs are gone.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping

from headrace.node_agent.pausing import RUNNING, Driver, DriverError
from headrace.node_agent.pausing.ladder import PAUSED, Step, Way, broken, steps, turned
from headrace.node_agent.supervision import kernel, tree

LOOKS_MAX = 32  # at a tree that is being stopped and may go on forking
LOOK_S_FIRST, LOOK_S_MAX = 0.0002, 0.1

Pids = Callable[[], list[int]]


def move(driver: Driver, pids: Pids, wanted: str, devices: Mapping[str, str]) -> Way:
    """Take the worker whose processes `pids` lists to where it is `wanted`, or back again; where it
    is then. `devices` maps those that it had to those that it has now.
    """
    way = Way(wanted)
    while not way.is_broken:
        if way.wanted != PAUSED:
            tree.send(pids(), signal.SIGCONT)  # a process's own threads move it back
        try:
            states = _states(driver, pids())
            if lost := broken(states):
                return turned(Way(RUNNING, way.failed), lost)
            todo = list(steps(way.wanted, states))
            for step in todo:
                _do(driver, step, devices)
        except DriverError as error:
            way = turned(way, str(error))
            continue
        if not todo:
            break
    if way.wanted == PAUSED:
        _freeze(pids)
    return way


def _do(driver: Driver, step: Step, devices: Mapping[str, str]) -> None:
    match step.what:
        case "lock":
            driver.lock(step.pid)
        case "checkpoint":
            driver.checkpoint(step.pid)
        case "restore":
            driver.restore(step.pid, devices)
        case _:
            driver.unlock(step.pid)


def _states(driver: Driver, pids: list[int]) -> dict[int, str]:
    known = ((pid, driver.state(pid)) for pid in pids)
    return {pid: state for pid, state in known if state is not None}


def _freeze(pids: Pids) -> None:
    """Stop everything, also what was being forked meanwhile, and see it stopped. What the kernel
    cannot stop in that time has no GPU to use.
    """
    for look in range(LOOKS_MAX):
        moving = [pid for pid in pids() if kernel.stat(pid)[:1] not in ([b"T"], [])]
        if not moving:
            return
        tree.send(moving, signal.SIGSTOP)
        time.sleep(min(LOOK_S_FIRST * 2**look, LOOK_S_MAX))
