"""Words that refusals share: which names are known, and how many there are of something.

Rule: a line that names what is known names `KNOWN_SHOWN_MAX` at most, in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.documents.nearest import nearest

KNOWN_SHOWN_MAX = 15
COMPARED_MAX = 1_000  # known names that are compared with an unknown one, the first


def some(names: Sequence[str], most: int = KNOWN_SHOWN_MAX) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def meant(name: str, what: str, known: Sequence[str], none: str = "there is none yet") -> str:
    """What was probably meant by an unknown name, else which names are known: `pools: a, b`."""
    near = nearest(name, known[:COMPARED_MAX])
    if near:
        return f"did you mean {near}?"
    return f"{what}: {some(known)}" if known else none


def counted(number: int, noun: str) -> str:
    """`1 job`, `3 jobs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
