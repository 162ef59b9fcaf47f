"""A publisher's durable place among its project's outcomes.

Rule: it follows from the log alone (made with the publisher, ended with its login), so that it can be
made anew whenever the bus has lost it.
"""

from __future__ import annotations

import msgspec

PREFIX = "outcomes_"


class Durable(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher that hears everything since then, until its login ends."""

    project: str
    name: str
    since_us: int
    expires_at_us: int

    @property
    def consumer(self) -> str:
        """A name that a later publisher of this name does not have."""
        return f"{PREFIX}{self.project}_{self.name}_{self.since_us}"
