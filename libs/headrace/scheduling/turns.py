"""Whose turn it is: queues level by level from the root, then the gangs of the queue.

Rule: a queue that stays within its quota of a part of the fleet which the gang needs comes first,
then one within its fair share before one above it, then one within its quota, then the higher
priority, then the one that holds the smaller part of what it may have, then the weaker, then the
older. In a queue: higher priority, then gangs below their minimum, then the older. Victims come in
exactly the reverse order, but that parts do not count: what is guaranteed of them is no victim.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence

from headrace.scheduling.accounts import Account, Accounts
from headrace.scheduling.amounts import NOTHING, RESOURCES, UNLIMITED, Amounts, minus, plus
from headrace.scheduling.gangs import Gang

BOUNDLESS = 1 << 80

Stakes = Sequence[tuple[int, int]]  # numbers of parts of the fleet, and milli-GPUs of them
QueueKey = tuple[int | str, ...]
GangKey = tuple[int, int, int, str]


def gang_key(gang: Gang, standing: int) -> GangKey:
    """Where a gang stands in its queue."""
    return (-gang.priority, standing, gang.age, gang.name)


class Turns:
    """Gangs to be taken one after the other. What is taken may be put back."""

    def __init__(
        self,
        accounts: Accounts,
        amounts_of: Callable[[str], Amounts],
        stakes_of: Callable[[str], Stakes] = lambda _: (),
        *,
        victims: bool = False,
    ) -> None:
        self._accounts = accounts
        self._amounts_of = amounts_of  # what a gang asks for or, of a victim, would give
        self._amounts: dict[str, Amounts] = {}  # the same, of those who wait
        self._stakes_of = stakes_of  # what of parts a gang has to have
        self._stakes: dict[str, Stakes] = {}
        self._victims = victims
        self._waiting: dict[str, list[GangKey]] = {}
        self._taken: dict[str, Amounts] = {}
        self._below: dict[Account, int] = {}  # gangs waiting in each queue and everything below it
        self._keys: dict[Account, tuple[int, QueueKey]] = {}

    def put(self, gang: Gang, standing: int) -> None:
        """Let a gang wait for its turn; one whose queue cannot be served never gets it."""
        if gang.queue not in self._accounts or self._accounts.by_name[gang.queue].children:
            return
        self._amounts[gang.name] = self._amounts_of(gang.name)
        self._stakes[gang.name] = self._stakes_of(gang.name) if self._accounts.parts.all else ()
        insort(self._waiting.setdefault(gang.queue, []), gang_key(gang, standing))
        self._changed(gang.queue, 1)

    def take(self) -> str | None:
        """The name of the gang whose turn it is."""
        level = self._accounts.roots
        best: Account | None = None
        while level and (found := self._first_of(level)) is not None:
            best = found
            level = best.children
        if best is None:
            return None
        queue = best.spec.queue
        name = self._waiting[queue].pop(-1 if self._victims else 0)[3]
        if self._victims:
            self._taken[queue] = plus(self._taken.get(queue, NOTHING), self._amounts[name])
        self._changed(queue, -1)
        return name

    def _changed(self, queue: str, sign: int) -> None:
        for account in self._accounts.by_name[queue].path:
            self._below[account] = self._below.get(account, 0) + sign
            self._keys.pop(account, None)

    def _first_of(self, level: Iterable[Account]) -> Account | None:
        """Of some queues the one whose turn it is, if anybody waits in any of them."""
        below, keys, victims = self._below, self._keys, self._victims
        waiting = [account for account in level if below.get(account)]
        if len(waiting) < 2:
            return waiting[0] if waiting else None
        best: Account | None = None
        first: QueueKey = ()
        for account in waiting:  # a loop of its own, as this is what a search does most
            known = keys.get(account)
            if known is None or known[0] != account.version:
                known = keys[account] = (account.version, self._compute(account))
            key = known[1]
            if best is None or (key > first if victims else key < first):
                best, first = account, key
        return best

    def _compute(self, account: Account) -> QueueKey:
        leaf = account
        while leaf.children and (found := self._first_of(leaf.children)) is not None:
            leaf = found
        queue = leaf.spec.queue
        name = self._waiting[queue][-1 if self._victims else 0][3]
        amounts = self._amounts[name]
        if self._victims:
            taken = plus(self._taken.get(queue, NOTHING), amounts)
            request, change = NOTHING, minus(NOTHING, taken)
        else:
            request = change = amounts
        may = account.allocatable
        is_guaranteed = any(account.is_guaranteed(*stake) for stake in self._stakes[name])
        return (
            int(not is_guaranteed),
            int(account.is_over_share()),
            int(not account.is_starved(request)),
            -account.spec.priority,
            int(account.holds_without_share(request)),
            account.dominant(change),
            account.dominant(NOTHING),
            *(BOUNDLESS if may[r] == UNLIMITED else may[r] for r in RESOURCES),
            account.spec.age,
            account.spec.queue,
        )
