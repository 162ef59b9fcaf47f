"""How long what has just started is safe from being taken back or preempted.

Rule: a protected gang loses nothing of its minimum. Against another queue the time is that of the
victim's queue where the two paths part, or of the nearest queue above it that has one; within a
queue that of the queue itself or the nearest above.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.scheduling.accounts import Account, Accounts
from headrace.scheduling.division import QueueSpec
from headrace.scheduling.gangs import Gang


def safe_from_reclaim(accounts: Accounts, taker: str, victim: Gang, now_us: int) -> bool:
    """Whether the victim has run shorter than other queues have to leave it running."""
    path = _parted(accounts.by_name[taker].path, accounts.by_name[victim.queue].path)
    return _is_young(victim, now_us, _nearest(path, lambda spec: spec.reclaim_after_us))


def safe_from_preemption(accounts: Accounts, victim: Gang, now_us: int) -> bool:
    """Whether the victim has run shorter than its own queue has to leave it running."""
    path = accounts.by_name[victim.queue].path
    return _is_young(victim, now_us, _nearest(path, lambda spec: spec.preempt_after_us))


def _parted(taker: list[Account], victim: list[Account]) -> list[Account]:
    """The victim's path from where it leaves the taker's, upwards."""
    shared = 0
    for mine, theirs in zip(reversed(taker), reversed(victim), strict=False):
        if mine is not theirs:
            break
        shared += 1
    return victim[max(0, len(victim) - shared - 1) :]


def _nearest(path: list[Account], read: Callable[[QueueSpec], int | None]) -> int:
    return next((us for account in path if (us := read(account.spec)) is not None), 0)


def _is_young(victim: Gang, now_us: int, after_us: int) -> bool:
    return victim.started_at_us is not None and now_us < victim.started_at_us + after_us
