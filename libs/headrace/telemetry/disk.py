"""How full a disk is, in one way for all who say so."""

from __future__ import annotations

import os
from pathlib import Path


def used_permille(path: Path) -> int:
    """How full the disk with this path is, or will be in, as `df` has it: for who is not root, of
    blocks or of inodes, whichever are fewer. Some file systems (btrfs) make inodes as they are needed.
    """
    disk = os.statvfs(next(there for there in (path, *path.parents) if there.exists()))
    of_blocks = _permille(disk.f_blocks - disk.f_bfree, disk.f_bavail)
    return max(of_blocks, _permille(disk.f_files - disk.f_ffree, disk.f_favail))


def _permille(used: int, free: int) -> int:
    return used * 1000 // max(1, used + free)
