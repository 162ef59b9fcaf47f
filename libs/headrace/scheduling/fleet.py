"""What all machines have together.

Rule: added up again only when a machine has changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.scheduling.amounts import NOTHING, total
from headrace.scheduling.machines import Machine, memory_bounds


class Fleet:
    """All machines together. `changed`: to be measured again."""

    def __init__(self) -> None:
        self.changed = True
        self.amounts = NOTHING
        self.memory_min_bytes = self.memory_max_bytes = 0  # of one device

    def measure(self, machines: Iterable[Machine]) -> bool:
        """Add up what there is; whether tasks may ask for other amounts now."""
        if not self.changed:
            return False
        self.changed = False
        specs = [machine.spec for machine in machines]
        before = (self.memory_min_bytes, self.memory_max_bytes)
        self.amounts = total(spec.amounts for spec in specs)
        self.memory_min_bytes, self.memory_max_bytes = memory_bounds(specs)
        return before != (self.memory_min_bytes, self.memory_max_bytes)
