"""One project's files by their names, on disk: what a gateway keeps, and what a node has fetched.

    objects/ab/cdef…   the content whose SHA-256 is abcdef…
    trees/<name>       a manifest of which every content is here; used last at its access time
    incoming/          what is being received

Rule: a name appears when its content was compared with it, never before. There is nothing else to
keep in step: the folder may be copied, thinned out or lost at any time.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from headrace.bundles.manifest import (
    BUNDLE_BYTES_MAX,
    BadManifest,
    Manifest,
    is_name,
    name_of,
    read_manifest,
)
from headrace.bundles.packing import hash_file

_OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class Damaged(OSError):
    """A content is not what its name, `digest`, says."""

    def __init__(self, line: str, digest: str) -> None:
        super().__init__(line)
        self.digest = digest


class Objects:
    """The folder of one project. Not for several threads at once but where it says so."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._objects, self._trees = root / "objects", root / "trees"
        self._incoming = root / "incoming"

    def path_of(self, digest: str) -> str:
        """Where this content is, if it is here. Raises `ValueError` for what is no name."""
        if not is_name(digest):
            raise ValueError(f"{digest[:80]!r} is no name of a content")
        return f"{self._objects}/{digest[:2]}/{digest[2:]}"

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Which of these contents are not here."""
        return [digest for digest in digests if not os.path.exists(self.path_of(digest))]

    def put(self, digest: str, data: bytes) -> None:
        """Keep a content. Any number of threads may. Raises `Damaged` when it has another name."""
        if name_of(data) != digest:
            raise Damaged(f"what was received is not {digest}", digest)
        self._place(digest, data)

    def put_part(self, digest: str, size: int, offset: int, data: bytes) -> bool:
        """Keep a part of a content of `size` bytes, of which the last part comes last; whether it
        is complete now. Raises `Damaged`.
        """
        if not offset and len(data) == size:
            self.put(digest, data)
            return True
        self._incoming.mkdir(parents=True, exist_ok=True)
        self.path_of(digest)
        path = self._incoming / digest
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, data, offset)
        finally:
            os.close(file)
        if offset + len(data) < size:
            return False
        if hash_file(str(path)) != digest:
            path.unlink()
            raise Damaged(f"what was received is not {digest}", digest)
        self._make_room_for(digest)
        path.replace(self.path_of(digest))
        return True

    def read(self, digest: str, offset: int, bytes_max: int) -> bytes:
        """A part of a content, or of a manifest by its name. Raises `OSError`."""
        try:
            file = os.open(self.path_of(digest), os.O_RDONLY)
        except FileNotFoundError:
            file = os.open(self._trees / digest, os.O_RDONLY)
        try:
            return os.pread(file, bytes_max, offset)
        finally:
            os.close(file)

    def put_tree(self, data: bytes, bytes_max: int = BUNDLE_BYTES_MAX) -> list[str]:
        """Keep a manifest whose contents are all here; what of them is not. Raises `BadManifest`."""
        manifest = read_manifest(data, bytes_max)
        missing = self.missing(manifest.digests())
        if not missing:
            self._trees.mkdir(parents=True, exist_ok=True)
            self._write(str(self._trees / name_of(data)), data)
        return missing

    def tree(self, name: str, bytes_max: int = BUNDLE_BYTES_MAX) -> Manifest | None:
        """The manifest of this name, which is used now; None when it is not, or no longer, here."""
        if not is_name(name):
            return None
        path = self._trees / name
        try:
            data = path.read_bytes()
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except OSError:
            return None
        if name_of(data) != name:
            path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(BadManifest):
            return read_manifest(data, bytes_max)
        return None

    def has_tree(self, name: str) -> bool:
        """Whether everything of this folder is here; it counts as used."""
        path = self._trees / name
        try:
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except OSError:
            return False
        return True

    def trees(self) -> list[str]:
        """The names of the folders that are here."""
        with contextlib.suppress(OSError):
            return [name for name in os.listdir(self._trees) if is_name(name)]
        return []

    def drop_tree(self, name: str) -> None:
        """Forget a folder; its contents go when room is made."""
        (self._trees / name).unlink(missing_ok=True)

    def drop_damaged(self, digest: str) -> bool:
        """Look at a content that somebody found damaged; whether it was, and is gone."""
        path = self.path_of(digest)
        with contextlib.suppress(OSError):
            if hash_file(path) != digest:
                os.unlink(path)
                return True
        return not os.path.exists(path)

    def _place(self, digest: str, data: bytes) -> None:
        path = self.path_of(digest)
        try:
            self._write(path, data)
        except FileNotFoundError:
            self._make_room_for(digest)
            self._write(path, data)

    def _make_room_for(self, digest: str) -> None:
        os.makedirs(os.path.dirname(self.path_of(digest)), mode=0o700, exist_ok=True)

    def _write(self, path: str, data: bytes) -> None:
        """All of it or nothing, whoever else writes the same."""
        new = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
        file = os.open(new, _OPEN_NEW, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
        finally:
            os.close(file)
        os.rename(new, path)
