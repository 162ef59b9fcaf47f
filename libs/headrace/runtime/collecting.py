"""How often Python looks for cycles of objects that nothing reaches.

Rule: seldom. What a service makes for one request is freed by counting references; looking for the
rest goes through everything it keeps, while everybody waits.
"""

from __future__ import annotations

import gc

# made and not freed since the last look: with less, every request of many looks once
YOUNG_OBJECTS_MAX = 50_000
LOOKS_MAX = 10  # of the youngest until older ones are looked at, and of those until all are


def collect_seldom() -> None:
    """From now on, in this process; what was imported is never looked at again."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, LOOKS_MAX, LOOKS_MAX)
