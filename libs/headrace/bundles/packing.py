"""Makes a folder's manifest, reading no file again that has not changed.

Rule: what cannot travel is refused with one line, before anything is sent: links out of the folder,
what is neither file nor folder nor link, what cannot be read, and more than travels. What was hashed
before is remembered as git does it: by size, inode and times, and not when those are so fresh that a
change could have left them as they were.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from headrace.bundles.ignoring import FILES, REPOSITORY, Rules, is_ignored, rules_around, rules_in
from headrace.bundles.manifest import (
    BUNDLE_BYTES_MAX,
    FILES_MAX,
    BadManifest,
    File,
    Manifest,
    check_length,
    leads_out,
    manifest_of,
    name_of,
)

LARGEST_SHOWN = 3
READ_BYTES = 1_048_576
FRESH_NS = 100_000_000  # younger than a clock's tick and a busy machine's pause
FRESH_COARSE_NS = 2_000_000_000  # where times are in whole seconds
HELD_BYTES_MAX = 33_554_432  # of what was read, so that it is not read again to be sent

_SECOND_NS = 1_000_000_000


class Vanished(BadManifest):
    """A file was there when its folder was looked at, and then was not."""


class Hashed(NamedTuple):
    """A file as it was when it was hashed."""

    size: int
    inode: int
    modified_ns: int
    changed_ns: int
    digest: str


Known = dict[str, Hashed]


class Packed(NamedTuple):
    """A folder's manifest, what need not be hashed next time, and contents that were read now."""

    manifest: Manifest
    known: Known
    held: dict[str, bytes]


def pack(folder: Path, known: Known, bytes_max: int = BUNDLE_BYTES_MAX) -> Packed:
    """The folder as it is now. Raises `BadManifest` with the line that says why it cannot travel,
    and `Vanished` with the name of a file.
    """
    packing = _Packing(folder, known, bytes_max)
    try:
        packing.walk(str(folder), "", rules_around(folder))
    except OSError as error:
        name = os.path.relpath(error.filename, folder) if error.filename else "a file"
        if isinstance(error, FileNotFoundError) and name != os.curdir:
            raise Vanished(name) from None
        raise BadManifest(f"{name} cannot be read: {error.strerror}") from None
    return Packed(manifest_of(packing.files), packing.hashed, packing.held)


class _Packing:
    """One walk through a folder."""

    def __init__(self, folder: Path, known: Known, bytes_max: int) -> None:
        self._folder, self._known, self._bytes_max = folder, known, bytes_max
        self._now_ns = time.time_ns()
        self._sizes: Counter[str] = Counter()
        self.files: list[File] = []
        self.hashed: Known = {}
        self.held: dict[str, bytes] = {}
        self._room = HELD_BYTES_MAX

    def walk(self, folder: str, above: str, rules: tuple[Rules, ...]) -> None:
        """Take what is in the folder whose path ends in `/`, or is empty."""
        check_length(above)
        with os.scandir(folder) as listing:
            entries = list(listing)
        if any(entry.name in FILES for entry in entries):
            own = rules_in(Path(folder))
            rules = (*rules, Rules(own, cut=len(above))) if own is not None else rules
        for entry in entries:
            if entry.name == REPOSITORY:
                continue
            path = above + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules and is_ignored(f"{path}/" if is_folder else path, rules):
                continue
            if is_folder:
                self.walk(entry.path, f"{path}/", rules)
            else:
                self._take(path, entry)

    def _take(self, path: str, entry: os.DirEntry[str]) -> None:
        if not _is_text(path):
            raise BadManifest(f"{path.encode(errors='replace').decode()}: its name is not UTF-8")
        about = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(about.st_mode):
            target = os.readlink(entry.path).replace(os.sep, "/")
            if leads_out(path, target) or not _is_text(target):
                rule = "is a link out of the folder; ignore it, or copy what it leads to"
                raise BadManifest(f"{path} {rule}")
            self.files.append(File(path, target=target))
        elif stat.S_ISREG(about.st_mode):
            self._grow(path, about.st_size)
            digest = self._digest(path, entry.path, about)
            executable = _is_executable(entry.path, about)
            self.files.append(File(path, about.st_size, digest, executable))
        else:
            raise BadManifest(f"{path} is neither a file nor a folder nor a link; ignore it")
        if len(self.files) > FILES_MAX:
            raise BadManifest(
                f"more than {FILES_MAX} files; list what need not travel in {FILES[1]}"
            )

    def _grow(self, path: str, size: int) -> None:
        self._sizes[path.partition("/")[0]] += size
        total = self._sizes.total()
        if total > self._bytes_max:
            largest = ", ".join(
                f"{name} {size // 1_000_000} MB"
                for name, size in self._sizes.most_common(LARGEST_SHOWN)
            )
            rule = f"more than {self._bytes_max // 1_000_000} MB, which is what travels"
            raise BadManifest(
                f"{rule} (so far {largest}); list data in {FILES[1]} and put it on a volume"
            )

    def _digest(self, path: str, where: str, about: os.stat_result) -> str:
        known, seen = self._known.get(path), seen_in(about)
        coarse = about.st_mtime_ns % _SECOND_NS == 0 and about.st_ctime_ns % _SECOND_NS == 0
        changed_ns = about.st_mtime_ns if sys.platform == "win32" else about.st_ctime_ns
        is_fresh = self._now_ns - changed_ns <= (FRESH_COARSE_NS if coarse else FRESH_NS)
        if known is not None and known[:4] == seen:
            digest = known.digest
        elif is_fresh or about.st_size > min(self._room, READ_BYTES):
            digest = hash_file(where)
        else:
            digest = self._hold(where, about.st_size)
        if not is_fresh:
            self.hashed[path] = Hashed(*seen, digest)
        return digest

    def _hold(self, where: str, size: int) -> str:
        with open(where, "rb", buffering=0) as file:
            data = file.read(size + 1)
        digest = name_of(data)
        self.held[digest] = data
        self._room -= len(data)
        return digest


def _is_executable(path: str, about: os.stat_result) -> bool:
    if sys.platform != "win32":
        return bool(about.st_mode & stat.S_IXUSR)
    with open(path, "rb", buffering=0) as file:  # Windows knows it by the name, nodes do not
        return file.read(2) == b"#!"


def seen_in(about: os.stat_result) -> tuple[int, int, int, int]:
    """What of a file's `stat` changes with its content."""
    return about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns


def hash_file(path: str) -> str:
    """The name of a file's content. Raises `OSError`."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
    return digest.hexdigest()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
