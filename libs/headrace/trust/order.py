"""The order to join a platform, left in a node's folder for its agent to carry out.

Rule: it holds a join token, so it is 0600 and is removed once the token was proven or refused.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

FILE = "join.json"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """To join the platform at `url` as `node`."""

    node: str
    url: str
    token: str


def give(folder: Path, order: Order) -> None:
    """Leave the order in this folder. Raises `OSError`."""
    replace(folder / FILE, msgspec.json.encode(order))


def replace(path: Path, data: bytes) -> None:
    """Write a file that only its owner reads: whole and durable, or not at all. Raises `OSError`."""
    new = path.with_name(f"{path.name}.new")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
