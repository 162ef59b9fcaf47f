"""Removes folders that a job has written, whatever it made of them.

Rule: no link is followed. Folders below are moved up before they are emptied, so that two descriptors
are enough however deep they are.
"""

import contextlib
import itertools
import os
import stat

REMOVED_MAX = 10_000_000  # files and folders, in one removal
_AT_ONCE = 10_000  # names in memory
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove_at(folder: int, name: str) -> None:
    """Remove what has this name in an open folder. Raises `OSError` when that, or something in it,
    cannot be removed.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return
    root = os.open(name, _FOLDER, dir_fd=folder)
    try:
        left = REMOVED_MAX
        while left > 0 and (removed := _empty(root)):
            left -= removed
    finally:
        os.close(root)
    os.rmdir(name, dir_fd=folder)


def _empty(root: int) -> int:
    """Remove some of what is in the folder, and move up what is two levels below it; how much."""
    done = 0
    for name, is_folder in _some(root):
        with contextlib.suppress(OSError):
            if is_folder:
                done += _move_up(root, name)
                os.rmdir(name, dir_fd=root)
            else:
                os.unlink(name, dir_fd=root)
            done += 1
    return done


def _move_up(root: int, name: str) -> int:
    """Empty the folder `name`: files go, folders come into `root`; how many did."""
    done = 0
    folder = os.open(name, _FOLDER, dir_fd=root)
    try:
        while some := _some(folder):
            before, inode = done, os.fstat(folder).st_ino
            for number, (each, is_folder) in enumerate(some, start=done):
                with contextlib.suppress(OSError):
                    if is_folder:
                        moved = f".{inode}.{number}"
                        os.rename(each, moved, src_dir_fd=folder, dst_dir_fd=root)
                    else:
                        os.unlink(each, dir_fd=folder)
                    done += 1
            if done == before:
                return done
    finally:
        os.close(folder)
    return done


def _some(folder: int) -> list[tuple[str, bool]]:
    """Names in the folder, and whether each is a folder."""
    with os.scandir(folder) as found:
        few = itertools.islice(found, _AT_ONCE)
        return [(each.name, each.is_dir(follow_symlinks=False)) for each in few]
