"""What was made is on the disk before anybody relies on it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from headrace.embedded import EmbeddedError

_LIBC = ctypes.CDLL(None, use_errno=True)


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
