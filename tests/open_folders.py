"""Folders of tests whose jobs run as other accounts, which have to get there and to write."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every account may get to and write in."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


@contextlib.contextmanager
def full_disk(at: Path) -> Iterator[None]:
    """A file system of its own there, that everybody may write to and nothing fits on; needs root."""
    at.mkdir(exist_ok=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "nr_inodes=1,mode=777", "none", at), check=True)
    try:
        yield
    finally:
        subprocess.run(("umount", "--lazy", at), check=True)
