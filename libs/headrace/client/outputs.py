"""Fetches what a job left behind.

Rule: what comes is not trusted: a path or a link that would lead out of the folder is refused before
anything is written, and each file is compared with its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from headrace.bundles.manifest import (
    OUTPUTS_BYTES_MAX,
    BadManifest,
    File,
    check_windows,
    parents_of,
    read_manifest,
)
from headrace.client.connection import Connection
from headrace.client.errors import ClientError
from headrace.client.files_model import Left, OutputsAnswer

READ_BYTES = 1_048_576


def fetch_outputs(http: Connection, path: str, folder: Path) -> list[str]:
    """Into `folder`: of one worker as it is, of several in folders by rank; the paths below it.
    Raises `ClientError`.
    """
    answer = msgspec.json.decode(http.get(path), type=OutputsAnswer)
    paths: list[str] = []
    for left in answer.left:
        where = folder / str(left.rank) if len(answer.left) > 1 else folder
        try:
            paths += _fetch(http, f"{path}/{left.tree}", left, where)
        except BadManifest as error:
            raise ClientError(f"what the platform sent cannot be taken: {error}") from None
        except OSError as error:
            raise ClientError(f"cannot write {error.filename}: {error.strerror}") from None
    return [os.path.relpath(name, folder) for name in paths]


def _fetch(http: Connection, path: str, left: Left, folder: Path) -> list[str]:
    manifest = read_manifest(left.manifest, OUTPUTS_BYTES_MAX)
    if os.name == "nt":
        check_windows(manifest)
    folder.mkdir(parents=True, exist_ok=True)
    for file in manifest.files:
        for above in parents_of(file.path):
            if (folder / above).is_symlink():
                raise ClientError(f"{folder / above} is a link: what was left is not written there")
            (folder / above).mkdir(exist_ok=True)
    with http.body(path) as body:
        for file in manifest.files:
            _put(body, file, folder / file.path)
    return [str(folder / file.path) for file in manifest.files]


def _put(body: IO[bytes], file: File, where: Path) -> None:
    if not file.target:
        _write(body, file, where)
        return
    with _writing(where):
        where.unlink(missing_ok=True)
        where.symlink_to(file.target)


def _write(body: IO[bytes], file: File, where: Path) -> None:
    """All of it or nothing."""
    new = where.with_name(f".{where.name}.{os.getpid()}")
    digest, left = hashlib.sha256(), file.size
    with _writing(where):
        out = new.open("xb")
    try:
        with out:
            while left and (data := body.read(min(left, READ_BYTES))):
                with _writing(where):
                    out.write(data)
                    out.flush()
                digest.update(data)
                left -= len(data)
        if left or digest.hexdigest() != file.digest:
            raise ClientError(f"{file.path} did not come whole; fetch it again")
        with _writing(where):
            new.chmod(0o755 if file.executable else 0o644)
            new.replace(where)
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(where: Path) -> Iterator[None]:
    """What fails here is this machine's fault, and not the connection's."""
    try:
        yield
    except OSError as error:
        raise ClientError(f"cannot write {where}: {error.strerror}") from None
