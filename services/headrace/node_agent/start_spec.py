"""What the launcher is told to start, made from an assignment and its opened launch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from headrace.bus.agents import Assignment, Launch
from headrace.documents import frameworks
from headrace.events.accounts import BY_USER_NAMESPACES
from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.enforcement import MPS, Bound
from headrace.node_agent.folders import KEPT, Kept, name_of
from headrace.node_agent.gang_files import Files, files_of, shown
from headrace.node_agent.isolation import (
    DEVICES_RECORDED,
    Isolation,
    Limits,
    Processes,
    plan_of,
)
from headrace.node_agent.isolation.accounts import (
    Accounts,
    Identity,
    NoAccount,
    identity_of,
    make_home,
)
from headrace.node_agent.isolation.views import SHARED_MEMORY_RECORDED, Views
from headrace.node_agent.machine import Workplace
from headrace.node_agent.pausing import Driver, NoDriver
from headrace.node_agent.reconcile import key_of
from headrace.node_agent.supervision.protocol import (
    OUTPUT,
    OUTPUT_BYTES_MAX,
    REPORTS,
    STOP_REASON,
    WORK,
)
from headrace.node_agent.worker_environment import environment_of, place_of, processes_of
from headrace.node_agent.workplaces.setups import environment_of as prepared_by

_RECORDED = (
    "job", "attempt", "rank", "project", "traceparent", "devices", "replace_after_s",
    "checkpoint_signal", "checkpoint_grace_s",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """`bind` tells how a worker is bound to its devices, `devices_of` which these are; `journal` a
    file outside Headrace that every attempt's start and end is written to, or ""; `views` and `loopback`
    what the host offers beside `isolation` (None, "": nothing), see `plan_of`; `driver` moves
    processes off their GPUs; `base_environment` is the agent's own.
    """

    node_dir: Path
    node: str = ""
    bind: Callable[[Assignment], Bound] = lambda _assignment: Bound()
    devices_of: Callable[[tuple[Share, ...]], Sequence[Device]] = lambda _shares: ()
    journal: str = ""
    isolation: Isolation = field(default_factory=Processes)
    views: Views | None = None
    loopback: str = ""
    accounts: Accounts = field(default_factory=Accounts)
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
    identity = identity_of(account, settings.node_dir)
    path = str(settings.node_dir / folder)
    base = _base_of(settings, identity, assignment.user, path)
    if account is not None:
        make_home(base["HOME"], account, settings.node_dir)
    env = environment_of(assignment, launch, bound, base=base, folder=path, marker=marker)
    files = files_of(place_of(assignment, launch, path), launch.framework)
    plan = _confinement(settings, assignment, place, bound, files, identity=identity)
    granted, placed = _granted(assignment), _placed(place)
    return (
        granted
        | placed
        | {
            "folder": folder,
            "meant": _meant(granted, place, bound, plan, marker),
            "enforcement": bound.enforcement,
            "confinement": plan,
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


def _meant(
    granted: dict[str, Any], place: Workplace, bound: Bound, plan: dict[str, Any], marker: str
) -> str:
    """What `intent.json` says that is known by now: see `folders.Intent`."""
    meant = {name: granted[name] for name in _RECORDED}
    meant |= {"isolation": plan["level"], "groups": [folder for folder, _ in plan["groups"]]}
    meant |= {"enforcement": bound.enforcement, "marker": marker, "outputs": place.outputs}
    return msgspec.json.encode(meant).decode()


def _base_of(settings: MachineSettings, identity: Identity, user: str, path: str) -> dict[str, str]:
    """The agent's environment, as far as it is right for the account and the user's view."""
    base = settings.base_environment | identity.env
    if settings.views is None:
        return base
    base = base | {"TMPDIR": ""}
    if settings.views.hides_home(user):
        base["HOME"] = f"{path}/{WORK}"  # the agent's is empty and read-only for it
    return base


def _confinement(
    settings: MachineSettings,
    assignment: Assignment,
    place: Workplace,
    bound: Bound,
    files: Files,
    *,
    identity: Identity,
) -> dict[str, Any]:
    """The host's plan, and what the workplace adds to it: see `supervision.confinement.Plan`."""
    path = str(settings.node_dir / name_of(key_of(assignment)))
    account = identity.account
    limits = Limits(assignment.cpu_milli, assignment.memory_bytes, bound.denied)
    plan = plan_of(settings.isolation, os.path.basename(path), limits, account, settings.loopback)
    level, views = plan["level"], settings.views
    mounts = [(_at(path, source), *how) for source, *how in place.mounts]
    if account is None and views is None and settings.accounts.isolation == BY_USER_NAMESPACES:
        raise NoAccount(
            "this host grants its namespaces no more, without which nothing isolates jobs"
        )
    if mounts and views is None:
        places = ", ".join(str(target) for _, target, *_ in mounts)
        raise ValueError(f"nothing can be shown at {places}: this host grants no mount namespaces")
    mounts += shown(files, path) if views is not None else []
    if views is not None:
        if bound.denied_files and DEVICES_RECORDED not in level:
            level += DEVICES_RECORDED
        shares_memory = bound.enforcement == MPS  # its clients meet the daemon there
        level += views.recorded + (SHARED_MEMORY_RECORDED if shares_memory else "")
        plan["view"] = views.of(
            assignment.user,
            _given(path, place, bound, files, identity.home),
            account=account,
            cwd=place.cwd,
            sealed=_sealed(place),
            refused=bound.denied_files,
            shm_bytes=assignment.memory_bytes,
            shares_memory=shares_memory,
            names=identity.lines,
            groups=[folder for folder, _ in plan["groups"]],
        )
    return plan | {"mounts": mounts, "level": level + place.recorded}


def _given(
    path: str, place: Workplace, bound: Bound, files: Files, home: str
) -> list[tuple[str, bool]]:
    """What the attempt has of the node's folder, and whether it is read-only: of its own folder not
    what the shim writes there.
    """
    own = {WORK: False, OUTPUT: False, REPORTS: False, STOP_REASON: True}
    own |= dict.fromkeys((file.partition("/")[0] for file in files), True)
    moved = {to.partition("/")[0] for _, to in place.moves} - own.keys()
    given = [(f"{path}/{name}", only) for name, only in (own | dict.fromkeys(moved, False)).items()]
    elsewhere = [*(target for _, target, _ in place.links), *bound.folders]
    elsewhere += [place.setup["folder"]] if place.setup else []
    elsewhere += [home] if os.path.isdir(home) else []
    return given + [(folder, False) for folder in elsewhere]


def _sealed(place: Workplace) -> set[str]:
    """Where volumes are that links lead to, of which none is to be written through."""
    written = {target for _, target, is_read_only in place.links if not is_read_only}
    return {target for _, target, _ in place.links} - written


def _placed(place: Workplace) -> dict[str, Any]:
    """Where it works."""
    return {
        "cwd": place.cwd,
        "tree": place.tree,
        "moves": place.moves,
        "links": [(path, target) for path, target, _ in place.links],
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
        "checkpoint_signal": assignment.checkpoint_signal,
        "checkpoint_grace_s": assignment.checkpoint_grace_s,
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
