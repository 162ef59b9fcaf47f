"""`--watch`: a reading command again and again, until interrupted.

Rule: on a terminal what is shown is painted over, line by line, so that nothing flickers and nothing
scrolls; into a pipe it is printed when it has changed.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY_S = 2.0

_HOME, _LINE_END, _BELOW, _CLEAR = "\x1b[H", "\x1b[K\n", "\x1b[J", "\x1b[2J"


def watch(show: Callable[[], int]) -> int:
    """Call `show` every `EVERY_S` until it fails; its exit code then. Raises what it raises."""
    shown = None
    if sys.stdout.isatty():
        sys.stdout.write(_CLEAR)
    while True:
        screen = _Screen(sys.stdout)
        with contextlib.redirect_stdout(screen):
            code = show()
        text = screen.getvalue()
        if text != shown:
            sys.stdout.write(_painted(text) if sys.stdout.isatty() else text)
            sys.stdout.flush()
        shown = text
        if code:
            return code
        time.sleep(EVERY_S)


def _painted(text: str) -> str:
    """The lines that fit, each over what stood there."""
    lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
    return _HOME + "".join(line + _LINE_END for line in lines) + _BELOW


class _Screen(io.StringIO):
    """Collects what is printed, as colourful and as wide as it would be on `out`."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._is_terminal = out.isatty()

    def isatty(self) -> bool:
        return self._is_terminal
