"""Exit codes, and the one line on stderr that goes with most of them."""

from __future__ import annotations

import sys

DONE = 0
FAILED = 1
USAGE = 2
REFUSED = 120
CANCELLED = 121
UNREACHABLE = 122
UNPLACEABLE = 123
TIMED_OUT = 124  # as `timeout` has it
OWN_FAILURE = 125  # as `docker run` has it
INTERRUPTED = 130
PIPED = 141  # 128 + SIGPIPE


def report(line: str, code: int) -> int:
    """Print `line` to stderr; `code`, so that it can be returned."""
    print(printable(line), file=sys.stderr, flush=True)
    return code


def printable(text: str) -> str:
    """`text` with every control character (and line separator) written as an escape, so
    that nobody's job name moves the cursor of whoever lists it.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
