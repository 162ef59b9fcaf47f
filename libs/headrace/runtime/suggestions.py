"""Completes refusals of unknown names with the name that was probably meant.

Rule: made for the asker, of a decision that stands in the log without it, and bounded: no matter how
many names are unknown, comparing them takes a few percent of a core, and whoever comes beyond that is
refused without a suggestion. A project that asks for many does not use up the others'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.documents.nearest import nearest
from headrace.documents.wording import COMPARED_MAX, some
from headrace.events import Refusal
from headrace.runtime.token_buckets import TokenBuckets

BURST, PER_S = 10, 2  # suggestions for one project
ALL_BURST, ALL_PER_S = 20, 5  # and for all of them: at most 10 ms each
_ALL = ""


class Names(NamedTuple):
    """What there is of one kind; `are_listed` when none of them is near."""

    known: Sequence[str]
    are_listed: bool = True


NamesOf = Callable[[Any, Refusal, str], Names]
"""By the service's state: the names among which one that a refusal of this project has was looked for."""


class Suggestions:
    """What one service suggests."""

    def __init__(self, names_of: NamesOf | None, monotonic_s: Callable[[], float]) -> None:
        self._names_of = names_of
        self._each = TokenBuckets(BURST, PER_S, monotonic_s)
        self._all = TokenBuckets(ALL_BURST, ALL_PER_S, monotonic_s)

    def complete(self, refusal: Refusal, state: Any, project: str) -> Refusal:
        """The refusal, with what was probably meant, or which names there are, where it can say so."""
        if self._names_of is None or not refusal.unknown:
            return refusal
        if not self._each.takes(project) or not self._all.takes(_ALL):
            return refusal
        known, are_listed = self._names_of(state, refusal, project)
        near = nearest(refusal.value, known[:COMPARED_MAX])
        if near:
            instead = f"did you mean {near}?"
            instead += f" Or {refusal.instead}" if refusal.instead else ""
        elif known and are_listed and not refusal.instead:
            instead = f"{refusal.unknown}s: {some(known)}"
        else:
            return refusal
        return msgspec.structs.replace(refusal, instead=instead)
