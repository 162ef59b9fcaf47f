"""Whose account a job runs as.

Rule: a mapped user's own, else the one that the node keeps for jobs; root only where the node's
policy says so. An agent that is not root can only be itself, and so are its jobs.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field

JOBS_USER = "headrace-jobs"

Account = tuple[int, int, list[int]]  # user, group, supplementary groups


class NoAccount(ValueError):
    """There is nobody whom the job could run as; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """The node's policy: `users` maps Headrace's users to names of accounts here."""

    jobs_user: str = JOBS_USER
    users: Mapping[str, str] = field(default_factory=dict)
    root_allowed: bool = False

    def of(self, user: str) -> Account | None:
        """The account for this user's jobs; None: the agent's own. Raises `NoAccount`."""
        if os.geteuid() != 0:
            return None
        name = self.users.get(user, "")
        found = _account(name or self.jobs_user)
        if found is not None and (found[0] != 0 or self.root_allowed):
            return found
        if name:
            reason = "is root here" if found is not None else "is not an account here"
            raise NoAccount(f"{user} is mapped to {name}, which {reason}")
        if self.root_allowed:
            return None
        raise NoAccount(f"{self.lack()}; an administrator of the node makes it: {self.fix()}")

    def number_of(self, user: str) -> int:
        """The number of this user's account; the agent's own where there is none."""
        try:
            account = self.of(user)
        except NoAccount:
            account = None
        return account[0] if account is not None else os.geteuid()

    def require(self) -> None:
        """Raises `NoAccount` where no job of anybody could run."""
        if (lack := self.lack()) and not self.users:
            raise NoAccount(f"{lack}; {self.fix()}, then join")

    def lack(self) -> str:
        """Why users who are not mapped can run nothing here; empty if they can."""
        if os.geteuid() != 0 or self.root_allowed or _account(self.jobs_user) is not None:
            return ""
        whose = " of users who are not mapped" if self.users else ""
        return (
            f"jobs{whose} do not run as root, and there is no account {self.jobs_user} on this node"
        )

    def fix(self) -> str:
        """The command that makes their account, which `node join --install-service` does."""
        return f"useradd --system {self.jobs_user}"


def home_of(account: Account | None) -> dict[str, str]:
    """What the account's own environment says."""
    if account is None:
        return {}
    try:
        entry = pwd.getpwuid(account[0])
    except KeyError:
        return {}
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}


def _account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return entry.pw_uid, entry.pw_gid, os.getgrouplist(name, entry.pw_gid)
