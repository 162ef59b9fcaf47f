"""What a worker finds in its attempt's folder before it starts: a list of hosts, programs."""

import contextlib
import os

from headrace.node_agent.supervision import kernel


def put_files(files: dict[str, tuple[int, str]]) -> list[str]:
    """Write each (mode and content, by path in this folder), and the folders they are in; all paths
    that there are now. Raises `OSError`.
    """
    paths: list[str] = []
    for path, (mode, content) in files.items():
        folder = os.path.dirname(path)
        if folder and folder not in paths:
            os.mkdir(folder)
            paths.append(folder)
        kernel.write(path, content.encode())
        os.chmod(path, mode)
        paths.append(path)
    return paths


def remove_folder(path: str) -> None:
    """Remove a folder that a worker could write, when nothing of the worker is left. No link is
    followed, and however deep it is, two folders are open at a time: what is in a folder of it is moved
    up before it is looked into. What cannot be removed stays.
    """
    with contextlib.suppress(OSError):
        os.rmdir(path)
        return
    with contextlib.suppress(OSError):
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(path)


def _empty(top: int) -> None:
    number = 0
    names = os.listdir(top)
    while names:
        name = names.pop()
        try:
            os.unlink(name, dir_fd=top)
            continue
        except IsADirectoryError:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        try:
            for below in os.listdir(folder):
                moved = f".{number}-{os.getpid()}"
                number += 1
                os.rename(below, moved, src_dir_fd=folder, dst_dir_fd=top)
                names.append(moved)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)
