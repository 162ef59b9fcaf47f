"""Where a platform is kept unless a folder is named. `--help` tells it on every system, also to whom
has no home.
"""

from __future__ import annotations

import os
from pathlib import Path

SHARED_DIR = Path("/var/lib/headrace")


def default_data_dir() -> Path:
    """`$XDG_DATA_HOME/headrace`, usually `~/.local/share/headrace`; root's is where the user that
    Postgres runs as can get to it.
    """
    return Path(default_text()).expanduser()


def default_text() -> str:
    """The same for people; what is in somebody's home begins with `~`."""
    home = os.environ.get("XDG_DATA_HOME")
    if home is None and os.name == "posix" and os.geteuid() == 0:
        return f"{SHARED_DIR}/platform"
    return f"{home or '~/.local/share'}/headrace"
