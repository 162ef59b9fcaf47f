"""How long what has just started is safe from being taken back or preempted.

Rule: a protected gang loses nothing of its minimum. Against another queue the time is that of the
victim's queue where the two paths part, or of the nearest queue above it that has one; within a
queue that of the queue itself or the nearest above. Where no queue has one and past usage counts,
what is taken beyond the taker's quota waits for the platform's: shares move with every window of
usage, and who gets least runs would be taken from before it has done anything.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headrace.scheduling.accounts import Account, Accounts
from headrace.scheduling.amounts import Amounts
from headrace.scheduling.division import QueueSpec
from headrace.scheduling.gangs import Gang
from headrace.scheduling.settings import Settings


class Taking(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes how much, and what runs `shared_us` before it is taken from for a share alone."""

    queue: str
    request: Amounts
    shared_us: int


def taking(settings: Settings, queue: str, request: Amounts) -> Taking:
    """A queue that would hold so much more."""
    shared_us = settings.usage_min_runtime_us if settings.usage_strength else 0
    return Taking(queue=queue, request=request, shared_us=shared_us)


def safe_from_reclaim(accounts: Accounts, taker: Taking, victim: Gang, now_us: int) -> bool:
    """Whether the victim has run shorter than other queues have to leave it running."""
    takers, victims = accounts.by_name[taker.queue].path, accounts.by_name[victim.queue].path
    after_us = _nearest(_parted(takers, victims), lambda spec: spec.reclaim_after_us)
    if after_us is None:
        is_guaranteed = _parted(victims, takers)[0].is_starved(taker.request)
        after_us = 0 if is_guaranteed else taker.shared_us
    return _is_young(victim, now_us, after_us)


def safe_from_preemption(accounts: Accounts, victim: Gang, now_us: int) -> bool:
    """Whether the victim has run shorter than its own queue has to leave it running."""
    path = accounts.by_name[victim.queue].path
    return _is_young(victim, now_us, _nearest(path, lambda spec: spec.preempt_after_us) or 0)


def _parted(taker: list[Account], victim: list[Account]) -> list[Account]:
    """The victim's path from where it leaves the taker's, upwards."""
    shared = 0
    for mine, theirs in zip(reversed(taker), reversed(victim), strict=False):
        if mine is not theirs:
            break
        shared += 1
    return victim[max(0, len(victim) - shared - 1) :]


def _nearest(path: list[Account], read: Callable[[QueueSpec], int | None]) -> int | None:
    return next((us for account in path if (us := read(account.spec)) is not None), None)


def _is_young(victim: Gang, now_us: int, after_us: int) -> bool:
    return victim.started_at_us is not None and now_us < victim.started_at_us + after_us
