"""What the host offers to keep jobs apart, probed once, and what that makes of one attempt.

Rule: the best level that the host really grants is used, by trying it; its name is in the record of
every attempt. Levels, best first:

* `systemd+cgroup2`: a subtree that systemd delegated to the agent's unit (`Delegate=yes`)
* `cgroup2`: a writable cgroup v2 tree
* `cgroup1`: writable cgroup v1 hierarchies
* `processes`: sessions, no core files; neither memory nor CPU is limited

Behind it stands what else there is: `+account` (it is not the agent's), `+devices` (it cannot open
those it was not given), `+namespaces` or `+user-namespaces` (`views`), `+sockets` (abstract ones),
`+loopback` (ports).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

ACCOUNT_RECORDED, DEVICES_RECORDED, LOOPBACK_RECORDED = "+account", "+devices", "+loopback"


@dataclass(frozen=True)
class Limits:
    """What one worker may use; 0 is no limit. `denied` are devices of other jobs, as the kernel
    names them (`c 195:3`).
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    denied: Sequence[str] = ()


Group = tuple[str, list[tuple[str, str, bool]]]  # folder, and (file, value, is_needed) each


class Isolation(Protocol):
    """A level of isolation."""

    @property
    def level(self) -> str:
        """Its name in the record."""
        ...

    def groups(self, name: str, limits: Limits) -> list[Group]:
        """The control groups of an attempt's worker of this name."""
        ...

    def oom_file(self, name: str) -> str:
        """Where the kernel counts what the memory limit killed; empty if nowhere."""
        ...

    @property
    def keeps_devices(self) -> bool:
        """Whether groups keep a worker from `Limits.denied`."""
        ...

    def filtered(self, name: str) -> str:
        """The group that a program keeps from devices; empty where a file of a group does."""
        ...


class Processes:
    """Nothing but sessions: what every host offers."""

    level = "processes"
    keeps_devices = False

    def groups(self, name: str, limits: Limits) -> list[Group]:
        """None."""
        del name, limits
        return []

    def oom_file(self, name: str) -> str:
        """Nowhere."""
        del name
        return ""

    def filtered(self, name: str) -> str:
        """None."""
        del name
        return ""


def plan_of(
    isolation: Isolation,
    name: str,
    limits: Limits,
    account: tuple[int, int, list[int]] | None,
    loopback: str = "",
) -> dict[str, Any]:
    """What the shim is told: see `supervision.confinement.Plan`. `loopback` is the folder of version 2
    in and below which jobs reach only their own account's ports, "" where there is none.
    """
    is_limited, denied = bool(limits.memory_bytes), list(limits.denied)
    if not isolation.keeps_devices:
        denied = []
    limits = replace(limits, denied=denied)
    folder = isolation.filtered(name)
    level = isolation.level + (ACCOUNT_RECORDED if account is not None else "")
    level += DEVICES_RECORDED if denied else ""
    groups = isolation.groups(name, limits)
    is_fenced, joined = bool(loopback) and account is not None, ""
    if is_fenced:
        level += LOOPBACK_RECORDED
        fenced = f"{loopback}/{name}"
        if not groups:
            groups = [(fenced, [])]
        elif fenced not in dict(groups):
            joined = loopback  # membership is all it takes: no group of the attempt's own
    return {
        "level": level,
        "groups": groups,
        "joined": joined,
        "oom": isolation.oom_file(name) if is_limited else "",
        "memory_bytes": limits.memory_bytes,
        "account": account,
        "mounts": [],
        "filter": [folder, denied] if folder and denied else None,
        "view": None,
    }
