"""What a job wants when its node cannot be heard: to be kept, or to be replaced after a while.

Rule: to keep is the default. Who is replaced agrees to be ended on a node that cannot be asked, so
the wait is never shorter than a network that is merely slow.
"""

from __future__ import annotations

from headrace.documents.quantities import duration_us
from headrace.documents.refusing import refuse

KEEP = "keep"
REPLACE_AFTER_US_MIN = 60_000_000
REPLACE_AFTER_US_MAX = 7 * 86_400_000_000

_FIELD = "on_disconnect"
_INSTEAD = "keep, or {replace_after: 5m}"


def replace_after_us(value: str | dict[str, str]) -> int:
    """After how much silence the job is run elsewhere; 0: never. Raises `DocumentError`."""
    if value == KEEP:
        return 0
    if isinstance(value, str):
        refuse(_FIELD, "is not one of the words known here", value=value, instead=_INSTEAD)
    if list(value) != ["replace_after"]:
        named = ", ".join(value) or "nothing"
        refuse(_FIELD, "must name replace_after alone", value=named, instead=_INSTEAD)
    field, asked = f"{_FIELD}.replace_after", value["replace_after"]
    amount = duration_us(field, asked)
    if amount < REPLACE_AFTER_US_MIN:
        refuse(field, "is shorter than 60s", value=asked, instead="60s")
    if amount > REPLACE_AFTER_US_MAX:
        refuse(field, "is longer than 7d", value=asked, instead=KEEP)
    return amount
