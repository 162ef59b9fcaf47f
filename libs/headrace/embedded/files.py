"""Small files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def write_file(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Put `content` there in one step. `durable`: it survives a power cut once this returns."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(scratch, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        scratch.replace(path)  # `rename` does not on Windows, where contexts are kept too
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    if durable and os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_json(path: Path, kind: type[T]) -> T | None:
    """What the file says, or None when it is missing or not that."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
