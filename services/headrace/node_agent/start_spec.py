"""What the launcher is told to start, made from an assignment and its opened launch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.bus.agents import Assignment, Launch
from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.enforcement import Bound
from headrace.node_agent.folders import KEPT, Kept, name_of
from headrace.node_agent.gang_files import files_of
from headrace.node_agent.isolation import Isolation, Limits, Processes, plan_of
from headrace.node_agent.isolation.accounts import Accounts, home_of
from headrace.node_agent.machine import Workplace
from headrace.node_agent.pausing import Driver, NoDriver
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.supervision.protocol import OUTPUT_BYTES_MAX
from headrace.node_agent.worker_environment import environment_of, place_of, processes_of


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """`bind` tells how a worker is bound to its devices, `devices_of` which these are; `journal` a
    file outside Headrace that every attempt's start and end is written to, or ""; `driver` moves
    processes off their GPUs; `base_environment` is the agent's own.
    """

    node_dir: Path
    node: str = ""
    bind: Callable[[Assignment], Bound] = lambda _assignment: Bound()
    devices_of: Callable[[tuple[Share, ...]], Sequence[Device]] = lambda _shares: ()
    journal: str = ""
    isolation: Isolation = field(default_factory=Processes)
    accounts: Accounts = field(default_factory=lambda: Accounts(root_allowed=True))
    output_bytes_max: int = OUTPUT_BYTES_MAX
    driver: Driver = field(default_factory=NoDriver)
    kept: Kept = KEPT
    base_environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))


def spec_of(
    assignment: Assignment,
    launch: Launch,
    place: Workplace,
    *,
    settings: MachineSettings,
    marker: str,
) -> dict[str, Any]:
    """The `start` line's content; see `supervision.shim.Start`. Raises `ValueError` for an id that
    is none, for a launch without a command, and for a job that may run as nobody here.
    """
    _check(launch)
    folder = name_of(key_of(assignment))
    bound, account = settings.bind(assignment), settings.accounts.of(assignment.user)
    limits = Limits(assignment.cpu_milli, assignment.memory_bytes, bound.denied)
    path = str(settings.node_dir / folder)
    env = environment_of(
        assignment,
        launch,
        bound,
        base=settings.base_environment | home_of(account),
        folder=path,
        marker=marker,
    )
    return _granted(assignment) | {
        "folder": folder,
        "enforcement": bound.enforcement,
        "confinement": plan_of(settings.isolation, os.path.basename(folder), limits, account),
        "marker": marker,
        "command": launch.command,
        "setup": launch.setup,
        "cwd": place.cwd,
        "tree": place.tree,
        "env": env,
        "processes": processes_of(assignment, launch, path),
        "files": files_of(place_of(assignment, launch, path), launch.framework),
        "output_bytes_max": settings.output_bytes_max,
        "journal": settings.journal,
    }


def _granted(assignment: Assignment) -> dict[str, Any]:
    """What placement says of the attempt."""
    return {
        "job": assignment.job,
        "attempt": assignment.attempt,
        "rank": assignment.rank,
        "project": assignment.project,
        "traceparent": assignment.traceparent,
        "grace_s": assignment.grace_s,
        "max_duration_s": assignment.max_duration_s,
        "replace_after_s": assignment.replace_after_s,
        "devices": [f"{share.device}:{share.milli}" for share in assignment.shares],
    }


def _check(launch: Launch) -> None:
    if not launch.command or not launch.command[0]:
        raise ValueError("the launch has no command")
    if launch.image:
        raise ValueError(f"there is no container engine on this node for {launch.image}")
