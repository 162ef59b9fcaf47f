"""What the process machine keeps of each attempt while it lives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.node_agent import folders
from headrace.node_agent.machine import AttemptKey, Inside, Seen
from headrace.node_agent.supervision.protocol import SESSIONS_SINCE


@dataclass
class Held:
    """An attempt that is starting or running, or has ended and is not forgotten."""

    key: AttemptKey
    folder: Path
    seen: Seen
    spec: dict[str, Any] | None = None  # kept until its shim is known
    pidfd: int = -1
    stop: tuple[str, int, str] | None = None

    def inside(self) -> Inside | None:
        """Where people get in, once it runs."""
        if self.pidfd < 0 or self.seen.phase != "running":
            return None
        intent = folders.read_intent(self.folder)
        if intent is None or intent.version < SESSIONS_SINCE:  # its shim knows nothing of sessions
            return None
        return Inside(self.folder, self.pidfd, intent.marker, intent.pids, intent.groups)
