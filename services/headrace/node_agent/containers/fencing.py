"""Puts a fence beside a container whose attempt depends on the node's lease; see
`supervision.fence`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headrace.node_agent import supervision
from headrace.node_agent.folders import Intent
from headrace.node_agent.supervision.protocol import LAUNCHER_LOG


def raise_fence(folder: Path, intent: Intent, grace_s: int) -> None:
    """Have one stand when this returns; an attempt that is kept needs none. Raises `OSError`."""
    if not intent.replace_after_s:
        return
    program = os.path.dirname(os.path.abspath(supervision.__file__))
    words = [str(folder), intent.marker, str(intent.replace_after_s), str(grace_s)]
    with open(folder.parent.parent / LAUNCHER_LOG, "ab") as log:
        done = subprocess.run(
            [sys.executable, "-I", "-S", program, "--fence", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={},
            start_new_session=True,
            check=False,
        )
    if done.returncode:
        raise OSError("no fence can be put up")
