"""Whose account a job runs as, and whose jobs run here at all.

Rule: an agent that is root runs every job as an account that holds nothing of the platform's: the one
its user is mapped to here, else the one whose number placement assigned to this user of this
project, `first + number` on every node. No job runs as root, or in a group that is as good as root. An agent that is not root can only be
itself: where user namespaces do not isolate its jobs either, it runs those of one trusted user.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headrace.events.accounts import BY_ACCOUNTS, EVERYBODY, UNISOLATED
from headrace.node_agent.supervision.protocol import HOMES

# Above what systemd gives to containers (524288 to 1879048191), shadow to users' namespaces (100000
# to 600100000) and SSSD and FreeIPA to a directory's users (200000 to 2000200000); below systemd's
# foreign users (from 2147352576), and below 2^31, which some tools take for a sign.
FIRST, COUNT = 2_100_000_000, 1_048_576
OWNER = "headrace"  # who has the range in /etc/subuid and /etc/subgid
ETC = Path("/etc")
TABLES = (("passwd", "subuid"), ("group", "subgid"))  # of numbers, and of ranges of them

ENGINE_SOCKETS = (
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/var/lib/incus/unix.socket",
)
"""Whoever writes to one of these is root on the machine."""
PRIVILEGED = frozenset(
    ("root", "docker", "lxd", "incus", "sudo", "wheel", "disk", "shadow", "kmem")
)
"""Groups whose members are root, or read what root alone should. No job is in one."""

Account = tuple[int, int, list[int]]  # user, group, supplementary groups


class NoAccount(ValueError):
    """There is nobody whom the job could run as; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """The node's policy: `users` maps Headrace's users to names of accounts here; numbers from 1 on
    are those of the range that begins at `first`. `isolation` is how jobs are isolated; where it is
    none, only those of the user `trusted` run (`*`: everybody's). `engine` is the path of the container
    engine's socket that the node uses, "" for none.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    first: int = FIRST
    isolation: str = BY_ACCOUNTS
    trusted: str = ""
    engine: str = ""

    def of(self, user: str, number: int) -> Account | None:
        """The account for this user's jobs, whose `number` placement assigned; None: the agent's
        own. Raises `NoAccount`.
        """
        if os.geteuid() != 0:
            if self.isolation == UNISOLATED and self.trusted not in (user, EVERYBODY):
                raise NoAccount(self._distrust(user))
            return None
        if name := self.users.get(user, ""):
            return _mapped(user, name, privileged((self.engine, *ENGINE_SOCKETS)))
        if not 0 < number < COUNT:
            raise NoAccount(f"placement assigned no account to {user}")
        return self.first + number, self.first + number, []

    def number_of(self, user: str, number: int) -> int:
        """The uid of this user's jobs; the agent's own where it runs none of them."""
        try:
            account = self.of(user, number)
        except NoAccount:
            account = None
        return account[0] if account is not None else os.geteuid()

    def _distrust(self, user: str) -> str:
        whose = f"only jobs of {self.trusted} run" if self.trusted else "no jobs run"
        return (
            f"jobs are not isolated on this node, where {whose}, not those of {user}; an administrator "
            "of the node runs its agent as root, or sets HEADRACE_NODE_TRUSTED=*"
        )


class Identity(NamedTuple):
    """An account as its own programs see it; of none (the agent's own) nothing is said."""

    account: Account | None
    name: str
    home: str
    is_known: bool  # this host has a line for it

    @property
    def env(self) -> dict[str, str]:
        """What its environment says."""
        if self.account is None:
            return {}
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @property
    def lines(self) -> list[str] | None:
        """What a host that does not know the account lacks in passwd and group."""
        if self.account is None or self.is_known:
            return None
        (user, group, _), name = self.account, self.name
        return [
            f"{name}:x:{user}:{group}:Headrace job:{self.home}:/bin/sh",
            f"{name}:x:{group}:",
        ]


def identity_of(account: Account | None, node_dir: Path) -> Identity:
    """Looked up once a start: the host's tables are read for it."""
    if account is None:
        return Identity(None, "", "", is_known=True)
    try:
        entry = pwd.getpwuid(account[0])
    except KeyError:
        home = f"{node_dir}/{HOMES}/{account[0]}"
        return Identity(account, f"{OWNER}-{account[0]}", home, is_known=False)
    has_home = os.path.isdir(entry.pw_dir)  # of the machine; else one that the node keeps for it
    home = entry.pw_dir if has_home else f"{node_dir}/{HOMES}/{account[0]}"
    return Identity(account, entry.pw_name, home, is_known=True)


def make_home(home: str, account: Account, node_dir: Path) -> None:
    """Make the account's home, if it is the node that keeps it, and note that it is used now. Raises
    `OSError`.
    """
    homes = node_dir / HOMES
    if Path(home).parent != homes:
        return
    homes.mkdir(mode=0o711, exist_ok=True)
    homes.chmod(0o711)  # whatever our umask: each home is closed to others
    if not os.path.isdir(home):
        os.mkdir(home, 0o700)
        os.chown(home, account[0], account[1], follow_symlinks=False)
    os.utime(home, follow_symlinks=False)


def lack_of(first: int, *, etc: Path = ETC, mapped: str = "/proc/self/uid_map") -> str:
    """Why the range that begins at `first` cannot be used for jobs, and what to do; empty if it can."""
    last = first + COUNT - 1
    choose = (
        "set HEADRACE_NODE_ACCOUNTS to the first of as many free numbers, on every node the same"
    )
    found = next(_others(first, last, etc), "")
    if found:
        return f"{found} lies among the accounts for jobs, {first} to {last}; {choose}"
    if not _is_mapped(first, last, mapped):
        return f"this machine's user namespace has no accounts {first} to {last}; {choose}"
    return ""


def require(first: int) -> None:
    """Raises `NoAccount` where an agent that is root has nobody to run jobs as."""
    if os.geteuid() == 0 and (lack := lack_of(first)):
        raise NoAccount(lack)


def is_reserved(first: int, etc: Path = ETC) -> bool:
    """Whether the host's own tools give the range to nobody else."""
    line = _line(first)
    return all(line in _lines(etc / ranges) for _, ranges in TABLES)


def reserve(first: int, etc: Path = ETC) -> None:
    """Have the host's own tools give the range to nobody else. Raises `OSError`, and `NoAccount` when
    somebody has a part of it.
    """
    if lack := lack_of(first, etc=etc):
        raise NoAccount(lack)
    line = _line(first)
    for _, ranges in TABLES:
        lines = _lines(etc / ranges)
        if line not in lines:
            with (etc / ranges).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


def _line(first: int) -> str:
    return f"{OWNER}:{first}:{COUNT}"


def _others(first: int, last: int, etc: Path) -> Iterator[str]:
    """Who has a number, or a range of numbers, between these."""
    for numbers, ranges in TABLES:
        for line in _lines(etc / numbers):
            name, *rest = line.split(":")
            if len(rest) > 1 and rest[1].isdecimal() and first <= int(rest[1]) <= last:
                yield f"{name} ({rest[1]}, in {etc / numbers})"
        for line in _lines(etc / ranges):
            name, _, span = line.partition(":")
            low, _, count = span.partition(":")
            if not (low.isdecimal() and count.isdecimal()) or line == _line(first):
                continue
            if int(low) <= last and first < int(low) + int(count):
                yield f"a range of {name} (from {low}, in {etc / ranges})"


def _is_mapped(first: int, last: int, uid_map: str) -> bool:
    spans = (list(map(int, line.split())) for line in _lines(Path(uid_map)))
    return any(low <= first and last < low + count for low, _, count in spans)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def privileged(sockets: Iterable[str]) -> dict[int, str]:
    """The names of the groups, by number, that make their members as good as root: `PRIVILEGED`, and
    whoever may use one of these sockets.
    """
    found = {0: "root"}
    for name in PRIVILEGED:
        with contextlib.suppress(KeyError):
            found[grp.getgrnam(name).gr_gid] = name
    for path in filter(None, sockets):
        with contextlib.suppress(OSError):
            about = os.stat(path)
            if about.st_mode & stat.S_IWGRP:
                found.setdefault(about.st_gid, f"the group of {path}")
    return found


def _mapped(user: str, name: str, high: Mapping[int, str]) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise NoAccount(f"{user} is mapped to {name}, which is not an account here") from None
    if entry.pw_uid == 0:
        raise NoAccount(f"{user} is mapped to {name}, which is root here")
    if group := high.get(entry.pw_gid, ""):
        raise NoAccount(
            f"{user} is mapped to {name}, whose own group ({group}) is as good as root here"
        )
    groups = [group for group in os.getgrouplist(name, entry.pw_gid) if group not in high]
    return entry.pw_uid, entry.pw_gid, groups
