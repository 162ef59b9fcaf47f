"""Folders of tests whose jobs run as other accounts, which have to get there and to write."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every account may get to and write in."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)
