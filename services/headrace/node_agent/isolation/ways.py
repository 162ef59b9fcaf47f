"""How a job's account gets to its attempt, and to the programs it may run, below closed folders.

Rule: a folder that is closed to the account is covered in the job's own mounts, and holds there
nothing but the way to what is shown; the folder itself is not opened. Where the kernel gives no
mounts, the node's own folders are opened to pass through (0711), and what lies in them keeps its own
modes; folders above are left to whoever owns them.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import headrace.events
from headrace.node_agent.isolation.accounts import Account


@cache
def programs(interpreters: tuple[str, ...] = ()) -> list[str]:
    """Where the interpreter is that `python` leads to in a job, with Headrace's own client, and where
    these `interpreters` are.
    """
    package = os.path.dirname(os.path.dirname(os.path.dirname(headrace.events.__file__)))
    others = (os.path.dirname(os.path.dirname(os.path.realpath(path))) for path in interpreters)
    found = (sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix), package, *others)
    return list(dict.fromkeys(found))


def closed(account: Account, paths: Iterable[str]) -> list[str]:
    """The outermost folders above these paths that are closed to the account."""
    one_of_each = {os.path.dirname(path): path for path in paths}  # most lie beside each other
    found = (
        next((way for way in _ways(path) if not _is_open(way, account)), "")
        for path in one_of_each.values()
    )
    return list(dict.fromkeys(filter(None, found)))


def open_ways(node_dir: Path, paths: Iterable[str]) -> list[str]:
    """Let every account pass through the folders above these paths, as far as they are the node's own;
    which others are closed. Those are somebody's, who alone opens them.
    """
    others = []
    for path in paths:
        for way in map(Path, _ways(path)):
            mode = stat.S_IMODE(way.stat().st_mode)
            if mode & stat.S_IXOTH:
                continue
            if way.is_relative_to(node_dir):
                way.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)
            else:
                others.append(str(way))
    return list(dict.fromkeys(others))


def _ways(path: str) -> Iterator[str]:
    """The folders above, from the root on."""
    way = ""
    for name in path.split("/"):
        if name not in ("", "."):
            yield way or "/"
            way = f"{way}/{name}"


def _is_open(folder: str, account: Account) -> bool:
    user, group, groups = account
    try:
        about = os.stat(folder)
    except FileNotFoundError:
        return True  # it is made as its account needs it
    if about.st_uid == user:
        return bool(about.st_mode & stat.S_IXUSR)
    if about.st_gid in (group, *groups):
        return bool(about.st_mode & stat.S_IXGRP)
    return bool(about.st_mode & stat.S_IXOTH)
