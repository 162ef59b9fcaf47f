"""Mounts of one attempt: where they come from and where they go, through links that only root made.

Rule: source and target are followed name by name, and a link counts only while every folder before it
is root's alone. A mount point that is not there is made by the job's own account; where that may not,
in a layer that only the worker sees. Root writes nothing on the machine.
Needs Linux 5.12. Source: open_tree(2), move_mount(2), fsopen(2), mount_setattr(2).
"""

import contextlib
import ctypes
import errno
import itertools
import os
import stat
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.beneath import LINK

LINKS_MAX = 40  # on the way to one path, as the kernel has it
BESIDE_MAX = 1_024  # names in a folder that gets a layer; beside more a mount point must be there
LAYER_BYTES = "1m"

_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
_CLONE, _CLOEXEC, _RECURSIVE, _NO_FOLLOW, _EMPTY_PATH = 0x1, os.O_CLOEXEC, 0x8000, 0x100, 0x1000
_FROM_EMPTY, _TO_EMPTY = 0x04, 0x40
_SET_STRING, _CREATE = 1, 6
_CREATE_CLOEXEC = 1  # FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC
_NO_SUID, _NO_DEVICES = 0x2, 0x4
_READ_ONLY = struct.pack("=QQQQ", 0x1, 0, 0, 0)  # a `struct mount_attr`: to set, to clear, …
_ATTRIBUTES_BYTES = ctypes.c_size_t(len(_READ_ONLY))
_HERE = -100  # AT_FDCWD
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

Account = list[Any] | None
"""User, group, other groups; None: the agent's own."""


class _Reached(NamedTuple):
    """How far a path goes: a descriptor of the last that is there, which names are not, whether
    only root can write in all of it, and whether that is the root of all.
    """

    descriptor: int
    missing: list[str]
    is_roots: bool
    is_top: bool


class Held(NamedTuple):
    """What is to be shown: a mount that is nowhere yet, by its descriptor."""

    tree: int
    is_folder: bool


def hold(source: str, *, is_read_only: bool) -> Held:
    """In a mount namespace of one's own: a folder or a file as it is now, with what is mounted in it,
    whatever covers it later. Raises `OSError` with the path at fault.
    """
    found = _reached(source)
    try:
        if found.missing:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        is_folder = stat.S_ISDIR(os.fstat(found.descriptor).st_mode)
        tree = _clone(found.descriptor, "")
    finally:
        os.close(found.descriptor)
    if is_read_only:
        _close_to_writers(tree)
    return Held(tree, is_folder)


def show(source: int, target: str, *, is_read_only: bool, is_new: bool) -> None:
    """Have an open folder or file, with what is mounted in it, at a path that is no link and that no job
    can change, and let go of it; where the path `is_new`, its mount point is made if need be. Raises
    `OSError` with the path.
    """
    tree = _clone(source, "")
    try:
        if is_read_only:
            _close_to_writers(tree)
        if is_new:
            _make(target, is_folder=stat.S_ISDIR(os.fstat(source).st_mode))
        _attach_at(tree, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, target) from None
    finally:
        os.close(tree)
        os.close(source)


def _make(path: str, *, is_folder: bool) -> None:
    """Make what is not there yet; the folder above mostly is."""
    try:
        if is_folder:
            os.mkdir(path, 0o755)
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return
    except FileNotFoundError:
        _make(os.path.dirname(path), is_folder=True)
        _make(path, is_folder=is_folder)


def mount(held: Held, target: str, account: Account) -> None:
    """Show it at a path, and let go of it. Raises `OSError` with the path at fault."""
    place = _place(target, account, is_folder=held.is_folder)
    try:
        _attach(held.tree, place)
    finally:
        os.close(place)
        os.close(held.tree)


def _reached(path: str) -> _Reached:
    at, names, links = _top(), [name for name in path.split("/") if name], 0
    is_roots, is_top = True, True
    while names:
        try:
            below = os.open(names[0], os.O_PATH | os.O_NOFOLLOW, dir_fd=at)
        except FileNotFoundError:
            return _Reached(at, names, is_roots, is_top)
        except OSError as error:
            os.close(at)
            raise OSError(error.errno, error.strerror, path) from None
        name, names, about = names[0], names[1:], os.fstat(below)
        if not stat.S_ISLNK(about.st_mode) and name != "..":
            os.close(at)
            at, is_top, is_roots = below, False, is_roots and _is_roots(about)
            continue
        target = os.readlink("", dir_fd=below) if name != ".." else ".."
        os.close(below)
        links += 1
        is_followed = is_roots and about.st_uid == 0 and ".." not in target.split("/")
        if not is_followed or links > LINKS_MAX:
            os.close(at)
            raise OSError(errno.ELOOP, LINK, path)
        names = [*(part for part in target.split("/") if part not in ("", ".")), *names]
        if target.startswith("/"):
            os.close(at)
            at, is_top = _top(), True
    return _Reached(at, [], is_roots, is_top)


def _top() -> int:
    return os.open("/", os.O_PATH | os.O_DIRECTORY)


def _is_roots(about: os.stat_result) -> bool:
    """Whether nobody but root can put a link there, or another thing in the place of root's."""
    is_open = about.st_mode & _WRITABLE_BY_OTHERS and not about.st_mode & stat.S_ISVTX
    return about.st_uid == 0 and not is_open


def _place(target: str, account: Account, *, is_folder: bool) -> int:
    """A descriptor of the mount point, which is made if need be."""
    found = _reached(target)
    if not found.missing:
        return found.descriptor
    at = found.descriptor
    try:
        with files_of(account):
            return _made(at, found.missing, is_folder=is_folder)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS) or not found.is_roots:
            raise OSError(error.errno, error.strerror, target) from None
        at = _layered(found, target)
        return _made(at, found.missing, is_folder=is_folder)
    finally:
        os.close(found.descriptor)
        if at != found.descriptor:
            os.close(at)


def _made(at: int, names: list[str], *, is_folder: bool) -> int:
    """Folders in folders, or a file in the last."""
    *above, last = names
    with contextlib.ExitStack() as closing:
        closing.callback(os.umask, os.umask(0o022))  # for others to pass through
        for name in above:
            os.mkdir(name, 0o755, dir_fd=at)
            at = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=at)
            closing.callback(os.close, at)
        if is_folder:
            os.mkdir(last, 0o755, dir_fd=at)
        else:
            os.close(os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=at))
        return os.open(last, os.O_PATH | os.O_NOFOLLOW, dir_fd=at)


@contextlib.contextmanager
def files_of(account: Account) -> Iterator[None]:
    """Have the account's rights on files, and no more of root's."""
    if account is not None:
        kernel.have_files_of(account[0], account[1])
    try:
        yield
    finally:
        if account is not None:
            kernel.have_files_of(os.geteuid(), os.getegid())


def _layered(found: _Reached, target: str) -> int:
    """The same folder for this namespace alone, with everything that is in it, where names can be
    added; a descriptor. What is added beside it on the machine later is not seen there.
    """
    inside = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=found.descriptor)
    try:
        with os.scandir(inside) as listing:
            entries = list(itertools.islice(listing, BESIDE_MAX + 1))
        if len(entries) > BESIDE_MAX:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), target)
        layer = _new_file_system()
        _attach(layer, found.descriptor)
        for entry in entries:
            _show_again(inside, entry, layer)
        if found.is_top:
            os.fchdir(layer)
            os.chroot(".")
        return layer
    finally:
        os.close(inside)


def _show_again(inside: int, entry: "os.DirEntry[str]", layer: int) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.name, dir_fd=inside), entry.name, dir_fd=layer)
        return
    tree = _clone(inside, entry.name)
    place = _made(layer, [entry.name], is_folder=entry.is_dir())
    _attach(tree, place)
    os.close(tree)
    os.close(place)


def _new_file_system() -> int:
    made = kernel.syscall(_FSOPEN, b"tmpfs", _CREATE_CLOEXEC)
    try:
        for name, value in ((b"mode", b"755"), (b"size", LAYER_BYTES.encode())):
            kernel.syscall(_FSCONFIG, made, _SET_STRING, name, value, 0)
        kernel.syscall(_FSCONFIG, made, _CREATE, None, None, 0)
        return kernel.syscall(_FSMOUNT, made, _CREATE_CLOEXEC, _NO_SUID | _NO_DEVICES)
    finally:
        os.close(made)


def _clone(folder: int, name: str) -> int:
    """A mount of what is there, which is nowhere yet; nothing is followed."""
    flags = _CLONE | _CLOEXEC | _RECURSIVE | _NO_FOLLOW | _EMPTY_PATH
    return kernel.syscall(_OPEN_TREE, folder, os.fsencode(name), flags)


def _close_to_writers(tree: int) -> None:
    flags = _EMPTY_PATH | _RECURSIVE
    kernel.syscall(_MOUNT_SETATTR, tree, b"", flags, _READ_ONLY, _ATTRIBUTES_BYTES)


def _attach_at(tree: int, path: str) -> None:
    kernel.syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(path), _FROM_EMPTY)


def _attach(tree: int, place: int) -> None:
    kernel.syscall(_MOVE_MOUNT, tree, b"", place, b"", _FROM_EMPTY | _TO_EMPTY)
