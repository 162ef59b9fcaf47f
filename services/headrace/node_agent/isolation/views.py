"""What a worker sees of its host: probed once, then planned for each attempt.

Rule: of the platform's folders an attempt sees what it was given and nothing else; what that is, the
agent says, never the job. A folder that a job names itself is shown in the shared places only, and
never where it would uncover what is hidden.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headrace.events.accounts import EVERYBODY
from headrace.node_agent import supervision
from headrace.node_agent.isolation import ways
from headrace.node_agent.isolation.accounts import ENGINE_SOCKETS, Account
from headrace.node_agent.isolation.cgroups import own_groups
from headrace.node_agent.supervision.namespaces import GROUPS, ROOT, TEMPORARY
from headrace.node_agent.workplaces.setups import interpreters

PROBE_S_MAX = 10.0
NAMESPACES_RECORDED = "+namespaces"
RECORDED = {ROOT: NAMESPACES_RECORDED, "user": "+user-namespaces"}
SHARED_MEMORY_RECORDED = "+host-shm"
SOCKETS_RECORDED = "+sockets"
# Beside the home: through these, a job in its agent's account could start what is not confined.
OF_ITS_USER = ("/run/screen",)

Shown = tuple[str, bool]  # path, and whether it is read-only


@dataclass(frozen=True, kw_only=True)
class Views:
    """The node's. `kind` is whose namespaces they are, `hidden` what no job sees, `shown` what every
    job sees in the shared places, `home` the folder that only jobs of the user `trusted` see (`*`:
    everybody's): an agent that is not root shares its account with its jobs. `interpreters` are the
    Pythons that a job may ask for, `groups` the agent's own control groups, which limit jobs that have
    none.
    """

    kind: str
    scopes_sockets: bool
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    home: str = ""
    trusted: str = ""
    interpreters: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def recorded(self) -> str:
        """What the record says of it, behind the level."""
        return RECORDED[self.kind] + (SOCKETS_RECORDED if self.scopes_sockets else "")

    def of(
        self,
        user: str,
        given: Iterable[Shown],
        *,
        account: Account | None = None,
        cwd: str = "",
        sealed: Collection[str] = (),
        refused: Sequence[str] = (),
        shm_bytes: int = 0,
        shares_memory: bool = False,
        names: Sequence[str] | None = None,
        groups: Sequence[str] = (),
    ) -> dict[str, Any]:
        """What the shim is told (see `supervision.namespaces.View`) for a job of this user that was
        `given` these paths, runs as this account, and works in `cwd` if that is a folder of the node's.
        What is `sealed` of what it was given is read-only, wherever that is.
        A folder on the way to what it needs that is closed to the account is covered, so that what it
        needs is all that is in it. Of control groups it sees its own (`groups`): where version 2 is all
        there is, as a container does; else where they are.
        """
        hidden = [*self.hidden, *([self.home] if self.hides_home(user) else [])]
        needed = [*((path, True) for path in ways.programs(self.interpreters)), *given]
        own = groups or self.groups
        group = own[0] if len(own) == 1 and _is_unified() else ""
        if not group:
            hidden.append(GROUPS)
            needed += [(path, True) for path in own]
        if account is not None:
            hidden += ways.closed(account, [path for path, _ in needed])
        covered = (*hidden, *TEMPORARY)
        shown = [
            (path, only or path in sealed)
            for path, only in needed
            if path in sealed or _is_in(path, covered)
        ]
        return {
            "kind": self.kind,
            "hidden": sorted(set(hidden)),
            "shown": shown,
            "named": self._of_the_host(self.shown, hidden),
            "asked": self._of_the_host([] if self.hides_home(user) else [cwd], hidden),
            "refused": list(refused),
            "shm_bytes": shm_bytes,
            "shares_memory": shares_memory,
            "names": names,
            "scopes_sockets": self.scopes_sockets,
            "group": group,
        }

    def hides_home(self, user: str) -> bool:
        """Whether this user's jobs find the agent's home empty."""
        return bool(self.home) and self.trusted not in (user, EVERYBODY)

    @staticmethod
    def _of_the_host(paths: Sequence[str], hidden: Sequence[str]) -> list[str]:
        """Those of these folders that are of the shared places, through no link: whoever lays one there
        later, where everybody may, must not choose what is shown.
        """
        asked = {path for path in paths if path.startswith("/") and _is_in(path, TEMPORARY)}
        found = {os.path.realpath(path) for path in asked}
        return sorted(
            path for path in found if not _is_below(path, hidden) and os.path.exists(path)
        )


@cache
def granted(within: Path | None = None) -> tuple[str, ...]:
    """Which namespaces this host grants, found out by making them in a new folder `within` another:
    their kind (root or user), and `sockets`; nothing where it grants none.
    """
    with tempfile.TemporaryDirectory(prefix="probe-", dir=within) as folder:
        program = [sys.executable, "-I", "-S", os.path.dirname(str(supervision.__file__))]
        try:
            tried = subprocess.run(
                [*program, "--try-namespaces", folder],
                capture_output=True,
                text=True,
                timeout=PROBE_S_MAX,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return ()
    found = tuple(tried.stdout.split())
    return found if found and found[0] in RECORDED and not tried.returncode else ()


def probe(
    node_dir: Path, hidden: Iterable[Path], shown: Iterable[Path] = (), trusted: str = ""
) -> Views | None:
    """The views that this host grants, by making one; None where it grants none. `hidden` are the
    platform's folders beside the node's; for the rest see `Views`.
    """
    kind, *more = granted(node_dir) or ("",)
    if not kind:
        return None
    paths = {str(node_dir), *map(str, hidden), *ENGINE_SOCKETS}
    home = ""
    if kind != ROOT:
        home = os.path.realpath(os.path.expanduser("~"))
        paths |= {f"/run/user/{os.getuid()}", *OF_ITS_USER}
    return Views(
        kind=kind,
        scopes_sockets="sockets" in more,
        hidden=tuple(sorted(map(os.path.realpath, paths))),
        home=home if home != "/" else "",
        shown=tuple(map(str, shown)),
        trusted=trusted,
        interpreters=tuple(interpreters().values()),
        groups=own_groups(),
    )


@cache
def _is_unified() -> bool:
    """Whether there are control groups of version 2 alone."""
    return os.path.exists(f"{GROUPS}/cgroup.procs")


def _is_in(path: str, folders: Collection[str]) -> bool:
    """Whether the way there leads through one of these, or it is in one itself."""
    return _is_below(path, folders) or _is_below(os.path.realpath(path), folders)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return f"{path}/".startswith(tuple([f"{folder}/" for folder in folders]))
