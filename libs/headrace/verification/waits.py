"""What the check of promises remembers of one job."""

from __future__ import annotations

from collections.abc import Hashable

from headrace.events import Entry
from headrace.verification.life import NEVER


class Promise:
    """From `at_us` on there is room on these nodes; decided on the log up to `basis`. `due_us` is
    later where limits were lowered since, `void` that what it was made on has changed.
    """

    __slots__ = ("at_us", "basis", "due_us", "nodes", "void")

    def __init__(self, at_us: int, basis: int, nodes: frozenset[str]) -> None:
        self.at_us = self.due_us = at_us
        self.basis, self.nodes, self.void = basis, nodes, False


class Holding:
    """An attempt: where it is, until when it may be there, and from where on it is ending."""

    __slots__ = ("attempt", "end_us", "leaving", "nodes")

    def __init__(self, attempt: int, nodes: frozenset[str], end_us: int) -> None:
        self.attempt, self.nodes, self.end_us, self.leaving = attempt, nodes, end_us, NEVER


class Wait:
    """A job that may wait. `since` is the position from which on it competes, `room_us` when those
    are to be gone who are stopped for it, `untold` the basis of the first decision that should have
    told it when it starts (0: none), and `rested` where it last ceased to wait.
    """

    __slots__ = (
        "admitted_us", "firm", "kind", "max_us", "project", "rested", "room_us", "since", "untold",
    )  # fmt: skip

    def __init__(
        self, *, admitted_us: int, project: str, kind: Hashable, firm: bool, max_us: int
    ) -> None:
        self.admitted_us, self.project, self.kind = admitted_us, project, kind
        self.firm, self.max_us = firm, max_us
        self.room_us: int = NEVER
        self.rest(0)

    def wait(self, position: int) -> None:
        """It competes from here on."""
        self.rest(position)
        self.since = position

    def expect(self, entry: Entry, release_s: int) -> None:
        """There is to be room for it that long after this decision at the latest."""
        self.room_us = min(self.room_us, entry.header.decided_at_us + release_s * 1_000_000)

    def rest(self, position: int) -> None:
        """It does not wait, or not any more."""
        self.since, self.room_us, self.untold, self.rested = NEVER, NEVER, 0, position
