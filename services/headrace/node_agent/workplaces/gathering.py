"""Makes a manifest of what a worker left behind, at the paths that it was asked for.

Rule: whoever wrote there is not trusted, and may still be writing. No link is followed, nothing is
taken that the worker's own account may not read, and nothing but files and links that stay inside.
What was not written is left out; of the whole folder also what cannot be taken, for nobody named it:
an environment's links to interpreters, sockets, what is read-protected.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable
from fnmatch import fnmatchcase

from headrace.bundles.manifest import (
    FILES_MAX,
    OUTPUTS_BYTES_MAX,
    BadManifest,
    File,
    Manifest,
    check_length,
    check_size,
    leads_out,
    manifest_of,
)
from headrace.bundles.packing import READ_BYTES
from headrace.documents.mounts import ALL
from headrace.node_agent.supervision.beneath import Folder, Reader, readable

FOLDERS_MAX = 50_000
WAITING_MAX = FILES_MAX + FOLDERS_MAX  # names that were seen and not looked at
SHOWN_LENGTH_MAX = 100  # of a name in a message


def gather(
    attempt: Folder, top: str, paths: Iterable[str], reader: Reader
) -> tuple[Manifest, dict[str, str]]:
    """What is at these paths of the folder `top` of an attempt, and at which path of the attempt each
    content is. Raises `BadManifest`, `OSError`.
    """
    gathering = _Gathering(attempt, top, reader)
    for path in paths:
        if path == ALL:
            gathering.take_all()
        elif "*" in path:
            for found in _matching(attempt, f"{top}/", path):
                gathering.take(found)
        elif attempt.has(f"{top}/{path}"):
            gathering.take(path)
    return manifest_of(gathering.files.values()), gathering.where


def _matching(attempt: Folder, top: str, pattern: str) -> list[str]:
    """What is there of a path in which `*` stands for any part of a name."""
    found = [""]
    for part in pattern.split("/"):
        found = [
            f"{above}{name}/"
            for above in found
            for name in _names(attempt, f"{top}{above}")
            if fnmatchcase(name, part.replace("[", "[[]").replace("?", "[?]"))
        ]
    return [path.removesuffix("/") for path in found[:FILES_MAX]]


def _names(attempt: Folder, path: str) -> list[str]:
    with contextlib.suppress(OSError), attempt.folder(path.removesuffix("/")) as folder:
        return folder.names(FILES_MAX + 1)
    return []


class _Untakable(BadManifest):
    """What is neither a file, a folder, nor a link that stays inside, or has no name that can be kept."""


class _Gathering:
    """One walk through a folder."""

    def __init__(self, attempt: Folder, top: str, reader: Reader) -> None:
        self._attempt, self._top, self._reader = attempt, top, reader
        self._folders = self._bytes = 0
        self._takes_all = False
        self.files: dict[str, File] = {}
        self.where: dict[str, str] = {}

    def take_all(self) -> None:
        """Whatever can be taken."""
        self._takes_all = True
        with self._attempt.folder(self._top) as folder:
            names = folder.names(FILES_MAX + 1)
        for name in names:
            self.take(name)

    def take(self, name: str) -> None:
        """Whatever is there, however deep."""
        waiting = [name]
        while waiting:
            waiting += self._take(waiting.pop())
            if len(waiting) > WAITING_MAX:
                raise BadManifest(f"{shown(name)} has more than {WAITING_MAX} names")

    def _take(self, name: str) -> list[str]:
        """One of them; of a folder, what is in it."""
        check_length(name)
        path = f"{self._top}/{name}"
        try:
            found = self._attempt.find(path)
            try:
                return self._take_found(found, name, path)
            finally:
                os.close(found)
        except _Untakable:
            if not self._takes_all:
                raise
        except OSError as error:
            if not self._takes_all:
                raise BadManifest(f"{shown(name)} cannot be read: {error.strerror}") from None
        return []

    def _take_found(self, found: int, name: str, path: str) -> list[str]:
        mode = os.fstat(found).st_mode
        if stat.S_ISDIR(mode):
            return self._names_in(name, path)
        if stat.S_ISLNK(mode):
            self._take_link(found, name)
        elif stat.S_ISREG(mode):
            self._take_file(found, name, path)
        else:
            raise _Untakable(f"{shown(name)} is neither a file nor a folder nor a link")
        return []

    def _names_in(self, name: str, path: str) -> list[str]:
        self._folders += 1
        if self._folders > FOLDERS_MAX:
            raise BadManifest(f"more than {FOLDERS_MAX} folders; at most so many are kept")
        with self._attempt.folder(path) as folder:
            if not self._reader.may_read(folder.about()):
                raise PermissionError(0, "it belongs to another account")
            return [f"{name}/{each}" for each in folder.names(FILES_MAX + 1)]

    def _take_link(self, found: int, name: str) -> None:
        target = os.readlink("", dir_fd=found)
        if leads_out(name, target):
            raise _Untakable(f"{shown(name)} is a link out of the working directory")
        self._keep(File(_text(name), target=_text(target)))

    def _take_file(self, found: int, name: str, path: str) -> None:
        descriptor = readable(found, path, self._reader)
        try:
            about = os.fstat(descriptor)
            check_size(len(self.files) + 1, self._bytes + about.st_size, OUTPUTS_BYTES_MAX)
            digest = _hash(descriptor, about.st_size)
        finally:
            os.close(descriptor)
        is_program = bool(about.st_mode & stat.S_IXUSR)
        self._keep(File(_text(name), about.st_size, digest, is_program))
        self.where[digest] = path

    def _keep(self, file: File) -> None:
        self.files[file.path] = file
        self._bytes += file.size
        check_size(len(self.files), self._bytes, OUTPUTS_BYTES_MAX)


def shown(name: str) -> str:
    """A name that a job chose, for people."""
    return "".join(c if c.isprintable() else "?" for c in name[:SHOWN_LENGTH_MAX])


def _text(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _Untakable(f"{shown(name)}: not UTF-8") from None
    return name


def _hash(descriptor: int, size: int) -> str:
    """The content's name. Whoever makes the file longer meanwhile does not make this longer."""
    digest, left = hashlib.sha256(), size
    while left and (data := os.read(descriptor, min(left, READ_BYTES))):
        digest.update(data)
        left -= len(data)
    return digest.hexdigest()
