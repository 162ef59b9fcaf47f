"""What is printed, and a terminal whose every key goes to a program, on each system.

Rule: Windows gets the same bytes as other systems do, UTF-8 with LF. What a locale has no letter for
is a `?`, and nothing fails for it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator

# Of Windows' consoles: https://learn.microsoft.com/windows/console/setconsolemode
_LINES_ECHO_AND_CTRL_C = 0x0002 | 0x0004 | 0x0001
_KEYS_AS_SEQUENCES = 0x0200  # ENABLE_VIRTUAL_TERMINAL_INPUT
_SHOW_SEQUENCES = 0x0001 | 0x0004  # ENABLE_PROCESSED_OUTPUT, ENABLE_VIRTUAL_TERMINAL_PROCESSING
_INPUT, _OUTPUT = -10, -11  # GetStdHandle's


def prepare() -> None:
    """Have what is printed be as this module's rule says, colours on Windows' consoles included. A
    stream that is closed is an empty one.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # and not a test's
            if sys.platform == "win32":
                stream.reconfigure(encoding="utf-8", newline="\n")
            stream.reconfigure(errors="replace")
    if sys.platform == "win32" and sys.stdout.isatty():
        _changed_mode(_OUTPUT, on=_SHOW_SEQUENCES)


@contextlib.contextmanager
def raw(resized: Callable[[], None]) -> Iterator[None]:
    """Every key goes to the program, until the end of the block; `resized` is called when the
    window's size has changed (on Windows nobody tells).
    """
    if sys.platform == "win32":
        before = _changed_mode(_INPUT, on=_KEYS_AS_SEQUENCES, off=_LINES_ECHO_AND_CTRL_C)
        try:
            yield
        finally:
            _set_mode(_INPUT, before)
    else:
        import signal
        import termios
        import tty

        kept = termios.tcgetattr(sys.stdin)
        previous = signal.signal(signal.SIGWINCH, lambda *_: resized())
        tty.setraw(sys.stdin, termios.TCSADRAIN)  # what was typed ahead is kept
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, kept)
            signal.signal(signal.SIGWINCH, previous)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    def _changed_mode(which: int, *, on: int, off: int = 0) -> int:
        """Turn these bits of a console's mode on and off; the mode before."""
        mode = wintypes.DWORD()
        kernel = ctypes.windll.kernel32
        kernel.GetConsoleMode(_handle(which), ctypes.byref(mode))
        _set_mode(which, (mode.value & ~off) | on)
        return mode.value

    def _set_mode(which: int, mode: int) -> None:
        ctypes.windll.kernel32.SetConsoleMode(_handle(which), mode)

    def _handle(which: int) -> wintypes.HANDLE:
        kernel = ctypes.windll.kernel32
        kernel.GetStdHandle.restype = wintypes.HANDLE
        return wintypes.HANDLE(kernel.GetStdHandle(which))
