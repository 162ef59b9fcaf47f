"""There is room on the disk before anything is made, and what was made is on it before anybody relies
on it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from headrace.embedded import EmbeddedError

FIRST_BYTES_MIN = 256 * 2**20  # what a first start makes (60 MB), and its log for a while
LATER_BYTES_MIN = 32 * 2**20  # a segment of Postgres' own log (16 MB), and what recovery writes

_LIBC = ctypes.CDLL(None, use_errno=True)


def check_room(folder: Path, *, is_first: bool) -> None:
    """Refuse to start what would stop half-way on a full disk. Raises `EmbeddedError`."""
    needed_bytes = FIRST_BYTES_MIN if is_first else LATER_BYTES_MIN
    if lack := lack_of_room(folder, needed_bytes):
        otherwise = ", or take another --data-dir" if is_first else "; nothing in it was changed"
        raise EmbeddedError(
            f"refused: {lack}, and {needed_bytes >> 20} MiB are needed to start: free some{otherwise}"
        )


def lack_of_room(folder: Path, needed_bytes: int = LATER_BYTES_MIN) -> str:
    """What to say where less than that is free; else empty."""
    found = os.statvfs(folder)
    free_bytes = found.f_bavail * found.f_frsize
    if free_bytes >= needed_bytes:
        return ""
    return f"{folder} — its disk is full: {free_bytes >> 20} MiB are free"


def sync(*folders: Path) -> None:
    """Wait until all that was written to the file systems of these folders, whoever wrote it, survives a
    power cut. Raises `EmbeddedError`. Source: syncfs(2).
    """
    for folder in folders:
        there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _LIBC.syncfs(there):
                why = os.strerror(ctypes.get_errno())
                raise EmbeddedError(f"what is in {folder} does not reach the disk: {why}")
        finally:
            os.close(there)
