"""Contents as they are received: compared with their names, and on disk as soon as they are large.

Rule: memory holds a bounded part of a body, however large its contents are and however many.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from headrace.bundles.manifest import name_of
from headrace.bundles.objects import Damaged, Objects
from headrace.bundles.packs import PACK_FILES_MAX, PACKED_BYTES_MAX

HELD_BYTES_MAX = 4_194_304  # of small contents in memory, for each body that is being received

_OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Arriving:
    """Contents of one project as they come (a `frames.Sink`). What was compared with its name is
    kept however the rest goes. Held in memory are at most `HELD_BYTES_MAX` of small contents, which
    become a pack together; a larger content is written to disk as it comes.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._held: dict[str, bytes] = {}
        self._held_bytes = 0
        self._digest = ""
        self._small: bytearray | None = None
        self._large: LargeContent | None = None

    @property
    def held_bytes(self) -> int:
        """How much of the body is in memory now."""
        return self._held_bytes + len(self._small or b"")

    def begin(self, digest: str, size: int) -> None:
        """Raises `OSError`."""
        self._digest = digest
        if size > PACKED_BYTES_MAX:
            self._large = LargeContent(self._objects, digest)
        else:
            self._small = bytearray()

    def add(self, piece: memoryview) -> None:
        """Raises `OSError`."""
        if self._large is not None:
            self._large.write(piece)
        elif self._small is not None:
            self._small += piece

    def end(self) -> None:
        """Raises `Damaged` when it has another name, `OSError`."""
        large, self._large = self._large, None
        small, self._small = self._small, None
        if large is not None:
            large.keep()
        elif small is not None:
            self._take(bytes(small))

    def close(self) -> None:
        """Keep what has come complete, drop what has not. Raises `OSError`."""
        if self._large is not None:
            self._large.drop()
        self._large = self._small = None
        held, self._held, self._held_bytes = self._held, {}, 0
        self._objects.put_all(held)

    def _take(self, data: bytes) -> None:
        if name_of(data) != self._digest:
            raise Damaged(f"what was received is not {self._digest}", self._digest)
        self._held[self._digest] = data
        self._held_bytes += len(data)
        if self._held_bytes >= HELD_BYTES_MAX or len(self._held) >= PACK_FILES_MAX:
            held, self._held, self._held_bytes = self._held, {}, 0
            self._objects.put_all(held)


class LargeContent:
    """A content that is hashed and written below `incoming/` as it comes."""

    def __init__(self, objects: Objects, digest: str) -> None:
        self._objects, self._digest = objects, digest
        self._hash = hashlib.sha256()
        self._path = objects.new_incoming()
        self._file = os.open(self._path, _OPEN_NEW, 0o600)

    def write(self, piece: memoryview) -> None:
        """Raises `OSError`; then `drop` it."""
        self._hash.update(piece)
        while piece:
            piece = piece[os.write(self._file, piece) :]

    def keep(self) -> None:
        """All of it has come. Raises `Damaged`, and keeps nothing then, and `OSError`."""
        os.close(self._file)
        if self._hash.hexdigest() != self._digest:
            os.unlink(self._path)
            raise Damaged(f"what was received is not {self._digest}", self._digest)
        self._objects.adopt(self._path, self._digest)

    def drop(self) -> None:
        """It will never be whole."""
        os.close(self._file)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
