"""How often Python looks for cycles of objects that nothing reaches.

Rule: in small pieces, and through everything seldom. What a service makes for one request is freed
by counting references; while the rest is gone through, everybody waits.
"""

from __future__ import annotations

import gc

# Made and not freed since the last look, which takes some milliseconds: what a service keeps of some
# hundred requests.
YOUNG_OBJECTS_MAX = 5_000
YOUNG_LOOKS_MAX = 5  # until those that were looked at once are looked at again
OLDER_LOOKS_MAX = 100  # of these, until everything is


def collect_seldom() -> None:
    """From now on, in this process; what was imported is never looked at again."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_LOOKS_MAX, OLDER_LOOKS_MAX)
