"""What the process machine keeps of each attempt while it lives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.node_agent.machine import AttemptKey, Seen


@dataclass
class Held:
    """An attempt that is starting or running, or has ended and is not forgotten."""

    key: AttemptKey
    folder: Path
    seen: Seen
    spec: dict[str, Any] | None = None  # kept until its shim is known
    pidfd: int = -1
    stop: tuple[str, int, str] | None = None
