"""How things are shown: tables that fit the terminal, JSON, YAML, durations and times.

Rule: colour only on a terminal and never with `NO_COLOR`; whatever users wrote is shown with
control characters escaped.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Container, Sequence
from typing import Any

import msgspec

from headrace.cli.exits import printable

NEVER_CUT = ("STATE",)  # whose words are few, and what people look for
COLUMN_MIN = 12  # the last column keeps so many characters while others can give some
CELL_MIN = 5
GAP = "  "

_COLOR = re.compile(r"\x1b\[[0-9;]*m$")
_PARTS = re.compile(r"(\x1b\[[0-9;]*m|\t)")
_COLORS = {
    "running": "32", "succeeded": "32", "ready": "32", "failed": "31", "refused": "31",
    "silent": "31", "fenced": "31", "held": "33", "waiting": "33", "cordoned": "33",
    "stopping": "33", "paused": "33", "cancelled": "90",
}  # fmt: skip


def show(value: Any, output: str) -> None:
    """Print `value` as JSON or YAML."""
    if output == "yaml":
        import yaml

        builtins = msgspec.to_builtins(value)
        print(yaml.safe_dump(builtins, sort_keys=False, allow_unicode=True), end="")
    else:
        print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, wide: bool = False) -> None:
    """Print aligned columns, cut to the terminal's width unless `wide`; the first one never is."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max(len(line[column]) for line in [list(header), *shown]) for column in range(len(header))
    ]
    across = 0 if wide else columns()
    if across:
        kept = {0, *(column for column, name in enumerate(header) if name in NEVER_CUT)}
        widths = _fitting(widths, across, kept)
    for number, row in enumerate([list(header), *shown]):
        fitted = [_cut(cell, width) for cell, width in zip(row, widths, strict=True)]
        cells = [cell.ljust(width) for cell, width in zip(fitted, widths, strict=True)]
        if number and colorful():
            cells = [_colored(cell) for cell in cells]
        print(GAP.join(cells).rstrip())


def terminal_safe(line: str) -> str:
    """A line that a worker wrote: on a terminal its colours stay (without, with `NO_COLOR`) and
    nothing else moves the cursor; into a pipe it goes as it is.
    """
    if line.isprintable() or not sys.stdout.isatty():
        return line
    color = r"\g<0>" if colorful() else ""
    return "".join(
        _COLOR.sub(color, part) if _COLOR.match(part) or part == "\t" else printable(part)
        for part in _PARTS.split(line)
    )


def colorful() -> bool:
    """Whether colour codes may be printed."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def columns() -> int:
    """The terminal's width; 0 when nothing is shown on one."""
    if not sys.stdout.isatty():
        return 0
    import shutil  # with every compression there is

    return shutil.get_terminal_size().columns


def duration(amount_us: int) -> str:
    """A duration in a column: `20ms`, `1.4s`, `41s`, `12m30s`, `3h05m`, `2d04h`."""
    seconds = amount_us / 1_000_000
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms" if amount_us else "0s"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour:02d}h"
    return f"{hours}h{minute:02d}m" if hours else f"{minutes}m{second:02d}s"


def seconds(amount_us: int) -> str:
    """Seconds in a sentence: `0.02 s`, `1.3 s`, `240 s`."""
    value = amount_us / 1_000_000
    if value < 1:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def clock(at_us: int) -> str:
    """Local time of day with milliseconds."""
    whole, rest = divmod(at_us, 1_000_000)
    return f"{time.strftime('%H:%M:%S', time.localtime(whole))}.{rest // 1000:03d}"


def moment(at_us: int) -> str:
    """Local date and time."""
    return f"{time.strftime('%Y-%m-%d', time.localtime(at_us // 1_000_000))} {clock(at_us)}"


def gpus(milli: int) -> str:
    """Thousandths of a GPU as people write them: 2000 is `2`, 250 is `0.25`."""
    whole, rest = divmod(abs(milli), 1000)
    text = f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)
    return f"-{text}" if milli < 0 else text


def size(amount_bytes: int) -> str:
    """Bytes in the unit that gives one to three digits."""
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount_bytes >= scale:
            return f"{amount_bytes / scale:.0f}{unit}"
    return f"{amount_bytes}B"


def _fitting(widths: Sequence[int], across: int, kept: Container[int]) -> list[int]:
    """Widths that fit, if any do: the last column gives first, then always the widest but those that
    are `kept`, the first among them, which is what people copy.
    """
    fitting = list(widths)
    over = sum(fitting) + len(GAP) * (len(fitting) - 1) - across
    for least, giving in (
        (COLUMN_MIN, [len(fitting) - 1]),
        (CELL_MIN, [column for column in range(len(fitting)) if column not in kept]),
    ):
        while over > 0:
            widest = max(giving, key=lambda column: (fitting[column], column), default=0)
            if fitting[widest] <= least or widest in kept:
                break
            fitting[widest] -= 1
            over -= 1
    return fitting


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _colored(cell: str) -> str:
    code = _COLORS.get(cell.split(" ", 1)[0])
    return f"\x1b[{code}m{cell}\x1b[0m" if code else cell
