"""What a verb would end or drop is said before, and asked about.

Rule: it is said whether or not anybody is asked, for `--yes` in a script is read later. Only a terminal
is asked; without one, and without `--yes`, nothing is done, whatever stdin holds.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from headrace.cli.exits import printable

YES = ("y", "yes")
NAMES_MAX = 8  # named in a line; of the others it says how many there are


def add_yes(parser: ArgumentParser) -> None:
    """Whether what would be lost is known."""
    parser.add_argument("--yes", action="store_true", help="do it without asking")


def is_confirmed(verb: str, losses: Sequence[str], *, is_sure: bool) -> bool:
    """Say on stderr what is lost, a line each, and ask whether to go on. `is_sure`: that was
    answered with `--yes`. False also where nobody can be asked.
    """
    for loss in losses:
        print(printable(loss), file=sys.stderr, flush=True)
    if is_sure or not losses:
        return True
    if not sys.stdin.isatty():
        print(f"{verb}: nothing was done; say --yes to do it", file=sys.stderr, flush=True)
        return False
    print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in YES:
        return True
    print(f"{verb}: nothing was done", file=sys.stderr, flush=True)
    return False


def named(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return " ".join(names[:NAMES_MAX]) + more


def counted(count: int, one: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {one}{'' if count == 1 else 's'}"
