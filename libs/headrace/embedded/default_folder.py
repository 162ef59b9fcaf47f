"""Where a platform is kept unless a folder is named. Says it on every system, for what `--help` tells."""

from __future__ import annotations

import os
from pathlib import Path

SHARED_DIR = Path("/var/lib/headrace")


def default_data_dir() -> Path:
    """`$XDG_DATA_HOME/headrace`, usually `~/.local/share/headrace`; root's is where the user that
    Postgres runs as can get to it.
    """
    home = os.environ.get("XDG_DATA_HOME")
    if home is None and os.name == "posix" and os.geteuid() == 0:
        return SHARED_DIR / "platform"
    return (Path(home) if home else Path.home() / ".local" / "share") / "headrace"
