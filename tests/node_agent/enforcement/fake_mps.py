"""A program that does what NVIDIA's MPS control does as far as the agent can see."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

SCRIPT = r"""#!/bin/sh
file="$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
if [ "$1" = "-d" ]; then
    echo "$CUDA_VISIBLE_DEVICES" >> "@STARTED@"
    [ -e "@REFUSES@" ] && exit 1
    setsid "$0" --serve < /dev/null > /dev/null 2>&1 &
elif [ "$1" = "--serve" ]; then
    trap 'kill $!; rm -f "$file"; exit 0' TERM
    echo $$ > "$file"
    while :; do sleep 1000 & wait; done
else
    read -r said
    [ "$said" = quit ] && kill "$(cat "$file")" && while [ -e "$file" ]; do sleep 0.01; done
fi
"""


class FakeMps:
    """The program, where it notes for which devices it was started, and how it comes to refuse."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mps"
        self.program = folder / "nvidia-cuda-mps-control"
        self.started = folder / "started"
        self.refuses = folder / "refuses"
        script = SCRIPT.replace("@STARTED@", str(self.started))
        self.program.write_text(script.replace("@REFUSES@", str(self.refuses)))
        self.program.chmod(0o755)

    def starts(self) -> list[str]:
        return self.started.read_text().split() if self.started.exists() else []

    def pids(self) -> list[int]:
        files = self.folder.glob("*/nvidia-cuda-mps-control.pid")
        return [int(file.read_text()) for file in files]

    def kill(self) -> None:
        """End every daemon, as a crash does: its file stays."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
