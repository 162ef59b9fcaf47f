"""One project's files by their names, on disk: what a gateway keeps, and what a node has fetched.

    objects/ab/cdef…   the content whose SHA-256 is abcdef…
    packed/ab/cdef…    a link to the pack that has this content (`packs`), for many that came together
    trees/<name>       a manifest of which every content is here; used last at its access time
    incoming/          what is being received

Rule: a name appears when its content was compared with it, never before. There is nothing else to
keep in step: the folder may be copied, thinned out or lost at any time. Where it is to be durable, a
content is on the disk before its name appears, and the names of all before that of the manifest.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
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
from headrace.bundles.packs import (
    PACKED_BYTES_MAX,
    in_packs,
    pack_of,
    read_packed,
)

_OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class Damaged(OSError):
    """A content is not what its name, `digest`, says."""

    def __init__(self, line: str, digest: str) -> None:
        super().__init__(line)
        self.digest = digest


class Objects:
    """The folder of one project. Not for several threads at once but where it says so. `durable`: a
    manifest that was kept survives a power cut, with all its contents.
    """

    def __init__(self, root: Path, *, durable: bool = False) -> None:
        self.root, self._durable = root, durable
        self._objects, self._packed = root / "objects", root / "packed"
        self._trees, self._incoming = root / "trees", root / "incoming"

    def path_of(self, digest: str) -> str:
        """Where this content is, if it has a file of its own. Raises `ValueError` for what is no
        name.
        """
        if not is_name(digest):
            raise ValueError(f"{digest[:80]!r} is no name of a content")
        return f"{self._objects}/{digest[:2]}/{digest[2:]}"

    def pack_of(self, digest: str) -> str:
        """Where the pack with this content is, if it is in one."""
        return f"{self._packed}/{digest[:2]}/{digest[2:]}"

    def has(self, digest: str) -> bool:
        """Whether this content is here. Raises `ValueError`."""
        own = self.path_of(digest)  # looked at last, for that is where unpacking takes it
        return os.path.exists(self.pack_of(digest)) or os.path.exists(own)

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Which of these contents are not here."""
        return [digest for digest in digests if not self.has(digest)]

    def put(self, digest: str, data: bytes) -> None:
        """Keep a content. Any number of threads may. Raises `Damaged` when it has another name."""
        if name_of(data) != digest:
            raise Damaged(f"what was received is not {digest}", digest)
        self._place(digest, data)

    def put_all(self, contents: Mapping[str, bytes]) -> None:
        """Keep contents that were compared with their names, the small ones in packs if they are
        many. Any number of threads may.
        """
        packs, alone = in_packs(contents)
        for digest in alone:
            self._place(digest, contents[digest])
        for pack in packs:
            self._place_pack(pack)

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
        self.adopt(str(path), digest)
        return True

    def new_incoming(self) -> str:
        """The path of a new file below `incoming/`, which exists. Any number of threads may."""
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        return f"{self._incoming}/new.{os.getpid()}.{time.monotonic_ns()}"

    def adopt(self, path: str, digest: str) -> None:
        """Take a file of this file system as a content that was compared with its name."""
        self._make_room_for(digest)
        if self._durable:
            _sync(path)
        os.replace(path, self.path_of(digest))

    def read(self, digest: str, offset: int, bytes_max: int) -> bytes:
        """A part of a content, or of a manifest by its name; of one whose pack is damaged nothing.
        Raises `OSError`.
        """
        own = self.path_of(digest)
        with contextlib.suppress(FileNotFoundError):
            return read_packed(self.pack_of(digest), digest, offset, bytes_max)
        with contextlib.suppress(FileNotFoundError):
            return _read(own, offset, bytes_max)
        return _read(f"{self._trees}/{digest}", offset, bytes_max)

    def put_tree(self, data: bytes, bytes_max: int = BUNDLE_BYTES_MAX) -> list[str]:
        """Keep a manifest whose contents are all here; what of them is not. Raises `BadManifest`."""
        manifest = read_manifest(data, bytes_max)
        missing = self.missing(manifest.digests())
        if not missing:
            self._trees.mkdir(parents=True, exist_ok=True)
            if self._durable:
                self._sync_names(manifest)
            self._write(str(self._trees / name_of(data)), data)
            if self._durable:
                _sync(str(self._trees))
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
        with contextlib.suppress(OSError):
            if hash_file(self.path_of(digest)) != digest:
                os.unlink(self.path_of(digest))
        with contextlib.suppress(OSError):
            pack = self.pack_of(digest)
            if name_of(read_packed(pack, digest, 0, PACKED_BYTES_MAX)) != digest:
                os.unlink(pack)
        return not self.has(digest)

    def unpack(self, digest: str) -> None:
        """Give a content of a pack a file of its own. Raises `Damaged`, and leaves it then to whoever
        needs it, and `OSError`.
        """
        pack = self.pack_of(digest)
        self.put(digest, read_packed(pack, digest, 0, PACKED_BYTES_MAX))
        os.unlink(pack)

    def _place(self, digest: str, data: bytes) -> None:
        path = self.path_of(digest)
        try:
            self._write(path, data)
        except FileNotFoundError:
            self._make_room_for(digest)
            self._write(path, data)

    def _place_pack(self, contents: Mapping[str, bytes]) -> None:
        new = self.new_incoming()
        with open(os.open(new, _OPEN_NEW | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(pack_of(contents))
        if self._durable:
            _sync(new)
        for digest in contents:
            path = self.pack_of(digest)
            try:
                os.link(new, path)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                os.link(new, path)
            except FileExistsError:  # it came once more; perhaps that one is damaged
                os.link(new, f"{new}.link")
                os.rename(f"{new}.link", path)
        os.unlink(new)

    def _sync_names(self, manifest: Manifest) -> None:
        """The folders in which the names of its contents are, whoever put them there, and those above."""
        folders = set(map(str, (self._objects, self._packed, self.root, *self.root.parents[:2])))
        for digest in manifest.digests():
            folders.add(os.path.dirname(self.path_of(digest)))
            folders.add(os.path.dirname(self.pack_of(digest)))
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                _sync(folder)

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
            if self._durable:
                os.fsync(file)
            os.rename(new, path)
        except OSError:
            os.unlink(new)  # half of it would only take the room that is missing
            raise
        finally:
            os.close(file)


def _sync(path: str) -> None:
    """Wait until this file, or the names in this folder, survive a power cut. Raises `OSError`."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _read(path: str, offset: int, bytes_max: int) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.pread(file, bytes_max, offset)
    finally:
        os.close(file)
