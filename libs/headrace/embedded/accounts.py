"""Which user a server runs as, and which folders that user can get into.

Rule: Postgres refuses to run as root, and we never create users, never open anybody's folders and
never run as a user who has more rights than needed. Root drops to an existing plain user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from pathlib import Path
from typing import Any

import msgspec

from headrace.embedded import EmbeddedError

CANDIDATES = ("headrace", "postgres", "nobody")  # the first that exists; HEADRACE_RUN_AS goes first


class Account(msgspec.Struct, frozen=True):
    """A user to run as."""

    name: str
    uid: int
    gid: int

    def identity(self) -> dict[str, Any]:
        """The arguments of `subprocess` that make a child this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def plain_account() -> Account | None:
    """The user to drop to when this process is root, else None. Raises `EmbeddedError`."""
    if os.geteuid() != 0:
        return None
    wanted = os.environ.get("HEADRACE_RUN_AS")
    for name in (wanted,) if wanted else CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "Postgres does not run as root and there is no plain user to run it as: "
        f"none of {', '.join((wanted,) if wanted else CANDIDATES)} will do; set HEADRACE_RUN_AS"
    )


def can_reach(account: Account | None, path: Path) -> bool:
    """Whether the user may get to `path` and, being a program or folder, enter or run it."""
    if account is None:
        return os.access(path, os.X_OK)
    try:
        resolved = path.resolve(strict=True)
        return all(_may_enter(account, step) for step in (resolved, *resolved.parents))
    except OSError:
        return False


def private_folder(path: Path, account: Account | None = None, *, mode: int = 0o700) -> Path:
    """Make `path` a folder of that user (ours without one), 0700 unless `mode` says otherwise. Its
    parents are left as they are.

    Raises `EmbeddedError` when somebody else owns what is there.
    """
    owner = account.uid if account else os.geteuid()
    try:
        path.mkdir(mode=mode, exist_ok=True)
        if os.geteuid() == 0 and account:
            os.chown(path, account.uid, account.gid)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
            raise EmbeddedError(f"{path} belongs to uid {found.st_uid}; it must be ours alone")
        path.chmod(mode)
    except OSError as error:
        raise EmbeddedError(f"cannot use the folder {path}: {_why(error)}") from error
    return path


def _why(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return f"{error.strerror}: mount it writable, or take another --data-dir"
    return error.strerror or str(error)


def open_folder(path: Path, mode: int) -> None:
    """Make a folder that others may get into, whatever our umask; one that is there stays as is."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
        path.chmod(mode)


def _may_enter(account: Account, path: Path) -> bool:
    found = path.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
