"""What the launcher is told to start, made from an assignment and its opened launch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.bus.agents import Assignment, Launch
from headrace.documents import frameworks
from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.enforcement import Bound
from headrace.node_agent.folders import KEPT, Kept, name_of
from headrace.node_agent.gang_files import Files, files_of, shown
from headrace.node_agent.isolation import Isolation, Limits, Processes, plan_of, ways
from headrace.node_agent.isolation.accounts import Account, Accounts, identity_of, make_home
from headrace.node_agent.machine import Workplace
from headrace.node_agent.pausing import Driver, NoDriver
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.supervision.protocol import OUTPUT_BYTES_MAX
from headrace.node_agent.worker_environment import environment_of, place_of, processes_of
from headrace.node_agent.workplaces.setups import environment_of as prepared_by
from headrace.node_agent.workplaces.setups import interpreters


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """`bind` tells how a worker is bound to its devices, `devices_of` which these are; `journal` a
    file outside Headrace that every attempt's start and end is written to, or ""; `driver` moves
    processes off their GPUs; `has_mounts`: a job can be given mounts of its own; `base_environment` is the agent's own.
    """

    node_dir: Path
    node: str = ""
    bind: Callable[[Assignment], Bound] = lambda _assignment: Bound()
    devices_of: Callable[[tuple[Share, ...]], Sequence[Device]] = lambda _shares: ()
    journal: str = ""
    isolation: Isolation = field(default_factory=Processes)
    accounts: Accounts = field(default_factory=Accounts)
    has_mounts: bool = True
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
    """The `start` line's content; see `supervision.protocol.Start`. Raises `ValueError` for an id that
    is none, for a launch without a command, and for a job that may run as nobody here, and `OSError`
    where its home cannot be made.
    """
    _check(launch)
    folder = name_of(key_of(assignment))
    bound = settings.bind(assignment)
    account = settings.accounts.of(assignment.user, assignment.account)
    limits = Limits(assignment.cpu_milli, assignment.memory_bytes, bound.denied)
    path = str(settings.node_dir / folder)
    base = settings.base_environment | identity_of(account, settings.node_dir)
    env = environment_of(assignment, launch, bound, base=base, folder=path, marker=marker)
    if account is not None:
        make_home(base["HOME"], account, settings.node_dir)
    plan = plan_of(settings.isolation, os.path.basename(folder), limits, account)
    files = files_of(place_of(assignment, launch, path), launch.framework)
    return (
        _granted(assignment)
        | _placed(place)
        | {
            "folder": folder,
            "enforcement": bound.enforcement,
            "confinement": plan
            | _kept_apart(plan, place, files, path)
            | {"covers": _covers(settings, account, _own(path, base, place, bound))},
            "marker": marker,
            "command": launch.command,
            "env": env
            | {name: _at(path, value) for name, value in place.env.items()}
            | prepared_by(place.setup, env["PATH"]),
            "processes": processes_of(assignment, launch, path),
            "files": files,
            "output_bytes_max": settings.output_bytes_max,
            "journal": settings.journal,
        }
    )


def _kept_apart(plan: dict[str, Any], place: Workplace, files: Files, path: str) -> dict[str, Any]:
    """What its workplace adds to the host's plan."""
    mounts = [(_at(path, source), *how) for source, *how in place.mounts]
    mounts += shown(files, path) if os.geteuid() == 0 else []
    return {"mounts": mounts, "level": plan["level"] + place.recorded}


def _covers(
    settings: MachineSettings, account: Account | None, own: Sequence[str]
) -> list[tuple[str, list[tuple[str, bool]]]]:
    """What hides folders that the account may not enter from it, and shows what is its `own` there,
    and read-only the programs that it may run.
    """
    if account is None or not settings.has_mounts:
        return []
    covers = ways.covers_of(account, [*own, *ways.programs(tuple(interpreters().values()))])
    return [
        (folder, [(path, path not in own) for path in paths]) for folder, paths in covers.items()
    ]


def _own(path: str, base: dict[str, str], place: Workplace, bound: Bound) -> list[str]:
    """What the job may work in, besides the folders of the machine that are open to its account: the
    volumes among them, for an administrator declared where they are.
    """
    prepared = [str(place.setup["folder"])] if place.setup else []
    homes = [home for home in (base.get("HOME", ""),) if os.path.isdir(home)]
    volumes = [target for _, target in place.links]
    return [path, *homes, *prepared, *volumes, *bound.folders]


def _placed(place: Workplace) -> dict[str, Any]:
    """Where it works."""
    return {
        "cwd": place.cwd,
        "tree": place.tree,
        "moves": place.moves,
        "links": place.links,
        "outputs": place.outputs,
        "setup": place.setup,
    }


def _at(path: str, text: str) -> str:
    """With the attempt's folder filled in."""
    return text.replace("{}", path)


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
        "exhausted": frameworks.EXHAUSTED if assignment.shares else (),
        "devices": [f"{share.device}:{share.milli}" for share in assignment.shares],
    }


def _check(launch: Launch) -> None:
    if not launch.command or not launch.command[0]:
        raise ValueError("the launch has no command")
    if launch.image:
        raise ValueError(f"there is no container engine on this node for {launch.image}")
