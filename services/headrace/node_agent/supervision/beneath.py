"""The only way into folders that a job can write, for a process with more rights than the job.

Rule: the kernel follows a path from an open folder downwards and through no link (`openat2`); what is
opened is checked by its descriptor. Nothing here waits for a pipe, a lease or a device.
"""

import contextlib
import ctypes
import errno
import itertools
import os
import stat
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.removing import remove_at

LINK = "a link is on the way"

_OPENAT2 = 437  # on every architecture, since Linux 5.6
_RESOLVE_BENEATH, _RESOLVE_NO_SYMLINKS = 0x08, 0x04
_HOW = struct.Struct("=QQQ")  # the kernel's `struct open_how`: flags, mode, resolve
_HOW_BYTES = ctypes.c_size_t(_HOW.size)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY

Way = tuple[int, str]  # a folder's descriptor, and a name in it


class Reader(NamedTuple):
    """An account, by what decides whether it may read a file."""

    user: int
    group: int

    def may_read(self, about: os.stat_result) -> bool:
        """By owner and mode alone: what only an access list allows does not count."""
        if self.user in (0, about.st_uid):
            return True
        needed = stat.S_IRGRP if self.group == about.st_gid else stat.S_IROTH
        return bool(about.st_mode & needed)


class Folder:
    """An open folder. Paths are relative to it, with `/` and without `..`; every method raises
    `OSError`, with `ELOOP` where a link is on the way.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> "Folder":
        """A folder whose path no job can change."""
        return cls(os.open(path, _FOLDER))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """A descriptor of what is at the path. What is there is not waited for."""
        how = flags | os.O_CLOEXEC | (0 if flags & os.O_PATH else os.O_NONBLOCK)
        return _open(self.descriptor, path, how, mode if flags & os.O_CREAT else 0)

    def folder(self, path: str) -> "Folder":
        """A folder below it."""
        return Folder(self.open(path, _FOLDER))

    def names(self, most: int) -> list[str]:
        """What is in it, not more than so many."""
        with os.scandir(self.descriptor) as found:
            return [each.name for each in itertools.islice(found, most)]

    def about(self, path: str = "") -> os.stat_result:
        """What is at the path, or the folder itself; a link is not followed."""
        if not path:
            return os.fstat(self.descriptor)
        with self._way(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def has(self, path: str) -> bool:
        """Whether anything is there, through no link."""
        try:
            self.about(path)
        except OSError:
            return False
        return True

    def find(self, path: str) -> int:
        """A descriptor of whatever is at the path, of a link itself, which reads and writes nothing."""
        return self.open(path, os.O_PATH | os.O_NOFOLLOW)

    def regular(self, path: str, reader: Reader | None = None) -> int:
        """A descriptor to read a regular file from, which the `reader` may read too."""
        found = self.find(path)
        try:
            return readable(found, path, reader)
        finally:
            os.close(found)

    def read(self, path: str, bytes_max: int) -> bytes:
        """The beginning of a regular file."""
        descriptor = self.regular(path)
        try:
            return os.read(descriptor, bytes_max)
        finally:
            os.close(descriptor)

    def write(self, path: str, content: bytes, mode: int = 0o600) -> None:
        """A file that was not there, with exactly this mode."""
        descriptor = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            os.write(descriptor, content)
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    def make(self, path: str, mode: int = 0o700) -> None:
        """A folder that was not there."""
        with self._way(path) as (folder, name):
            os.mkdir(name, mode, dir_fd=folder)

    def make_way(self, path: str, mode: int = 0o700) -> list[str]:
        """The folders above the path, as far as they were not there; which those are."""
        parts, made = path.split("/"), []
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            try:
                self.folder(above).close()
            except FileNotFoundError:
                self.make(above, mode)
                made.append(above)
        return made

    def take(self, source: str, path: str) -> None:
        """Move what is at `source`, a path no job can change, to the path below."""
        with self._way(path) as (folder, name):
            os.rename(source, name, dst_dir_fd=folder)

    def link(self, target: str, path: str) -> None:
        """A link at the path, where nothing was."""
        with self._way(path) as (folder, name):
            os.symlink(target, name, dir_fd=folder)

    def hand_over(self, path: str, user: int, group: int) -> None:
        """Let an account have what is at the path: a link itself, not what it leads to."""
        with self._way(path) as (folder, name):
            os.chown(name, user, group, dir_fd=folder, follow_symlinks=False)

    def walk(self) -> Iterator[tuple["Folder", list["os.DirEntry[str]"]]]:
        """The folder and every one below it, however deep, with what is in it."""
        waiting = ["."]
        while waiting:
            at = waiting.pop()
            with self.folder(at) as folder, os.scandir(folder.descriptor) as found:
                entries = list(found)
                below = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
                yield folder, entries
            waiting += [f"{at}/{name}" for name in below]

    def show(self, path: str, group: int) -> None:
        """Let a group read a file that stays the node's."""
        descriptor = self.open(path, os.O_WRONLY)
        try:
            os.fchown(descriptor, -1, group)
            os.fchmod(descriptor, 0o640)
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> None:
        """Remove what is at the path, however deep; what cannot be removed stays."""
        with self._way(path) as (folder, name):
            remove_at(folder, name)

    @contextlib.contextmanager
    def _way(self, path: str) -> Iterator[Way]:
        """The folder that the path's last name is in, and the name."""
        above, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise OSError(errno.EINVAL, "names nothing below", path)
        if not above:
            yield self.descriptor, name
            return
        folder = self.open(above, _FOLDER)
        try:
            yield folder, name
        finally:
            os.close(folder)


def readable(found: int, path: str, reader: Reader | None = None) -> int:
    """The same of what was found at a path. Raises `OSError`."""
    about = os.fstat(found)
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", path)
    if reader is not None and not reader.may_read(about):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
    return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a folder with all that jobs put into it; the path itself no job can change. What is not
    there, or cannot be removed, is left.
    """
    above, name = os.path.split(os.path.abspath(path))
    with contextlib.suppress(OSError), Folder.at(above) as folder:
        folder.remove(name)


def _open(folder: int, path: str, flags: int, mode: int) -> int:
    how = _HOW.pack(flags, mode, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS)
    try:
        return kernel.syscall(_OPENAT2, folder, os.fsencode(path), how, _HOW_BYTES)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return _open_by_steps(folder, path, flags, mode)
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise OSError(errno.ELOOP, LINK, path) from None
        raise OSError(error.errno, error.strerror, path) from None


def _open_by_steps(folder: int, path: str, flags: int, mode: int) -> int:
    """The same on a kernel before 5.6, one name after the other."""
    *above, name = path.split("/")
    if not {"", ".."}.isdisjoint((*above, name)):
        raise OSError(errno.ELOOP, LINK, path)
    at = folder
    try:
        for part in above:
            before, at = at, os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            if before != folder:
                os.close(before)
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=at)
    finally:
        if at != folder:
            os.close(at)
