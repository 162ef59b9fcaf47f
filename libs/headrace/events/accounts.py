"""Accounts: as whom the jobs of one user of one project run, on every node.

Rule: a number is given once and never again, so that files on volumes keep their owner.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision

# What a node says of how it keeps jobs from its keys and from each other.
BY_ACCOUNTS, BY_USER_NAMESPACES, UNISOLATED = "accounts", "user-namespaces", "none"
EVERYBODY = "*"  # whose jobs run on a node that isolates none, where its administrator wants that


def isolation_text(isolation: str, trusted: str) -> str:
    """How a node isolates jobs, for people."""
    if isolation != UNISOLATED:
        return isolation
    whose = {"": "runs no jobs", EVERYBODY: "runs everybody's jobs"}
    return f"{isolation}, {whose.get(trusted, f'runs only jobs of {trusted}')}"


class AccountAssigned(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="account.assigned.v1"
):
    """Jobs of `user` in `project` run as account number `account` (from 1) of the range that every node
    reserves.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "account/{account}"
    project: str
    user: str
    account: int
