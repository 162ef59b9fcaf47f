"""Who goes first where there are fewer cores than services.

Rule: an answer that somebody waits for goes before what follows from it; nobody is kept waiting for
good.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_SESSION = Path("/proc/self/autogroup")


def step_back(niceness: int) -> None:
    """Let other processes go first, so far as nice(2) says; in its session, too, where Linux
    shares cores among sessions (sched(7), the autogroup feature).
    """
    if niceness:
        os.nice(niceness)
        with contextlib.suppress(OSError):
            _SESSION.write_text(str(niceness), encoding="ascii")
