"""How full a disk is, in one way for all who say so."""

from __future__ import annotations

import os
from pathlib import Path


def used_permille(path: Path) -> int:
    """How full the disk with this path is, or will be in, as `df` has it: for who is not root."""
    disk = os.statvfs(next(there for there in (path, *path.parents) if there.exists()))
    used, free = disk.f_blocks - disk.f_bfree, disk.f_bavail
    return used * 1000 // max(1, used + free)
