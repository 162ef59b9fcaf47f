"""I17: a number is the account of one user of one project, and never anybody else's."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.events import Entry
from headrace.events.accounts import AccountAssigned

Found = tuple[str, str]  # invariant, what


class AssignedAccounts:
    """Who has which number."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[str, str]] = {}
        self._numbers: dict[tuple[str, str], int] = {}

    def assigned(self, _entry: Entry, event: AccountAssigned) -> Iterator[Found]:
        """What is wrong with this number."""
        pair = (event.project, event.user)
        if event.account < 1:
            yield "I17", f"{event.user} of {event.project} was assigned {event.account}"
        if (owner := self._owners.setdefault(event.account, pair)) != pair:
            yield "I17", f"account {event.account} is of {owner[1]} in {owner[0]} already"
        if (number := self._numbers.setdefault(pair, event.account)) != event.account:
            yield "I17", f"{event.user} of {event.project} has account {number} already"
