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
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        scratch.rename(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    if durable:
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
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
