"""What a worker finds in its attempt's folder before it starts."""

from __future__ import annotations

from headrace.documents import frameworks
from headrace.node_agent.programs import GANG_LAUNCH

FILE, PROGRAM = 0o600, 0o700  # modes: the worker's own account, and nobody else


def files_of(place: frameworks.Place, framework: str) -> dict[str, tuple[int, str]]:
    """By path in the folder: its mode and content."""
    programs = frameworks.programs(framework)
    if not programs:
        return {}
    files = {f"{frameworks.BIN}/{name}": (PROGRAM, GANG_LAUNCH) for name in programs}
    return {frameworks.HOSTFILE: (FILE, place.hostfile), **files}
