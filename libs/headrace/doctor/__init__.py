"""What every look of `headrace doctor` says, whoever looks: the node's agent at its machine, the command
line at a platform.

Rule: a check looks and changes nothing. It says what it found, and one that is not well says the
command or the change that mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

WIDTH = 9  # of a column, at least
NAMED_MAX = 5  # of what one line names

Health = Literal["ok", "warning", "failed"]


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one look found. `warning`: it works, and something that it could do is missing."""

    name: str
    health: Health
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Check:
    """All is well."""
    return Check(name=name, health="ok", found=found)


def warning(name: str, found: str, fix: str) -> Check:
    """It works, with something missing."""
    return Check(name=name, health="warning", found=found, fix=fix)


def failed(name: str, found: str, fix: str) -> Check:
    """It does not work, or keeps nobody out."""
    return Check(name=name, health="failed", found=found, fix=fix)


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """The table, each fix below what it mends."""
    width = max((WIDTH, *(len(check.name) + 1 for check in checks)))
    for check in checks:
        yield f"{check.name:<{width}}{check.health:<{WIDTH}}{check.found}"
        if check.fix:
            yield f"{'':<{width + WIDTH}}fix: {check.fix}"


def named(names: Sequence[str]) -> str:
    """The first of these, and how many more there are."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def is_well(checks: Sequence[Check]) -> bool:
    """Whether nothing failed."""
    return all(check.health != "failed" for check in checks)
