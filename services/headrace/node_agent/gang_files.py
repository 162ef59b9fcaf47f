"""What a worker finds in its attempt's folder before it starts.

Rule: names of peers are a file of hosts, shown at /etc/hosts to the worker alone: there they hold for
every program in every language. The gang's names come first, then whatever the machine has there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from headrace.documents import frameworks
from headrace.node_agent.programs import GANG_LAUNCH, SLURM_COMMANDS

FILE, PROGRAM = 0o600, 0o700  # modes: the worker's own account, and nobody else
READABLE = 0o644
NAMES_AT = "/etc/hosts"

Files = dict[str, tuple[int, str]]


def files_of(place: frameworks.Place, framework: str) -> Files:
    """By path in the folder: its mode and content. MPI takes nodes whose names lead to this machine
    for one, so that where several nodes are one machine they stay without.
    """
    files: Files = {}
    programs, is_slurms = frameworks.programs(framework), framework == frameworks.SLURM
    takes_names = is_slurms or not (programs and place.shares_a_machine)
    if (place.nodes > 1 or place.is_elastic or is_slurms) and takes_names:
        files[frameworks.HOSTS] = (READABLE, place.hosts + _machines_own())
    if programs and not is_slurms:
        files[frameworks.HOSTFILE] = (FILE, place.hostfile)
    text = SLURM_COMMANDS if is_slurms else GANG_LAUNCH
    return files | {f"{frameworks.BIN}/{name}": (PROGRAM, text) for name in programs}


def shown(files: Collection[str], folder: str) -> list[tuple[str, str, bool]]:
    """Which of these files in the attempt's folder the worker sees elsewhere (what, where, whether
    it is read-only). To show them takes root, or a container engine.
    """
    if frameworks.HOSTS not in files or not os.path.exists(NAMES_AT):
        return []
    return [(f"{folder}/{frameworks.HOSTS}", NAMES_AT, True)]


def _machines_own() -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(NAMES_AT) as file:
        return file.read()
    return "127.0.0.1 localhost\n::1 localhost\n"
