"""Log lines: `LEVEL service message key=value`, one record one line, on stderr.

Rule: no stack trace ever; an exception is `error=Type: text where=file:line` on the same line. No
character of a message can end the line or move the reader's cursor.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePath
from types import TracebackType
from typing import TextIO

LEVEL = "HEADRACE_LOG_LEVEL"  # DEBUG, INFO (the default), WARNING or ERROR
LINE_CHARACTERS_MAX = 4_000
REPEATS_MAX = 10  # records from one place within one window; more are counted only
REPEAT_WINDOW_S = 10.0
PLACES_MAX = 1_000  # places in the code whose repeats are counted


def configure(service: str, stream: TextIO | None = None) -> None:
    """Send every log record and every uncaught exception of this process to stderr as one line."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(service))
    handler.addFilter(Repeats())
    level = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "INFO").upper(), logging.INFO)
    logging.raiseExceptions = False
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )


class LineFormatter(logging.Formatter):
    """Makes one printable line of a record."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = f"{at[:-6]}Z {record.levelname} {self._service} {_message(record)}"
        if record.exc_info and record.exc_info[1] is not None:
            line += f" {error_of(record.exc_info[1])}"
        if unsaid := getattr(record, "unsaid", 0):
            line += f" repeated={unsaid}"
        return printable(line)[:LINE_CHARACTERS_MAX]


class Repeats(logging.Filter):
    """Lets the first few records of each place in the code through, and counts the others."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        self._windows: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now_s = (record.pathname, record.lineno), self._clock_s()
        began_s, count = self._windows.get(place, (now_s, 0))
        if now_s - began_s >= REPEAT_WINDOW_S:
            record.unsaid = max(0, count - REPEATS_MAX)
            began_s, count = now_s, 0
        if len(self._windows) >= PLACES_MAX:
            self._windows.clear()
        self._windows[place] = (began_s, count + 1)
        return count < REPEATS_MAX


def error_of(error: BaseException) -> str:
    """An exception in one line: its type, its text, and the line that raised it."""
    where, trace = "", error.__traceback__
    while trace is not None:
        where = f" where={PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"error={type(error).__name__}: {error}{where}"


def printable(text: str) -> str:
    """`text` with every control character and line separator written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # a record whose arguments do not fit its text
        return str(record.msg)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("headrace").critical("ends %s", error_of(error.with_traceback(trace)))
