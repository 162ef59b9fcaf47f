"""Lays a folder out from kept files, as copies: whoever works in it can change nothing of what is
kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from headrace.bundles.manifest import File, Manifest, name_of, parents_of
from headrace.bundles.objects import Damaged, Objects
from headrace.bundles.packing import READ_BYTES, hash_file

Owner = tuple[int, int]  # user, group
NOTHING_HELD: Mapping[str, bytes] = MappingProxyType({})


def lay(
    objects: Objects,
    manifest: Manifest,
    folder: Path,
    owner: Owner | None = None,
    held: Mapping[str, bytes] = NOTHING_HELD,
) -> None:
    """Write every file below `folder`, which must not be there, and give it to `owner`; what is
    `held` was compared with its name and need not be read. Raises `Damaged` for a content that is
    not what its name says, and `OSError`.
    """
    folder.mkdir(mode=0o700)
    folders = dict.fromkeys(above for file in manifest.files for above in parents_of(file.path))
    for path in folders:
        os.mkdir(f"{folder}/{path}", 0o755)
    for file in manifest.files:
        where = f"{folder}/{file.path}"
        if file.target:
            os.symlink(file.target, where)
        else:
            _copy(objects, file, where, held.get(file.digest))
    if owner is not None:
        for path in ("", *folders, *(file.path for file in manifest.files)):
            os.chown(f"{folder}/{path}", *owner, follow_symlinks=False)


def _copy(objects: Objects, file: File, where: str, data: bytes | None) -> None:
    mode = 0o755 if file.executable else 0o644
    out = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        if file.size <= READ_BYTES:
            if data is None:
                data = objects.read(file.digest, 0, READ_BYTES)
                if name_of(data) != file.digest:
                    raise Damaged(f"{file.path} is damaged", file.digest)
            os.write(out, data)
            return
        path = objects.path_of(file.digest)
        if hash_file(path) != file.digest:
            raise Damaged(f"{file.path} is damaged", file.digest)
        with open(path, "rb", buffering=0) as source:
            at = 0
            while at < file.size and (
                sent := os.copy_file_range(source.fileno(), out, READ_BYTES * 64)
            ):
                at += sent
    finally:
        os.close(out)
