"""Slurm's ways to write amounts: times, sizes, counts of GPUs.

Rule: units are Slurm's. A time without a colon is minutes, a size without a unit is MiB.
"""

from __future__ import annotations

import re

from headrace.slurm.words import refuse

_TIMES = (
    (re.compile(r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?"), (86_400, 3_600, 60, 1)),
    (re.compile(r"(\d+):(\d+):(\d+)"), (3_600, 60, 1)),
    (re.compile(r"(\d+):(\d+)"), (60, 1)),
    (re.compile(r"(\d+)"), (60,)),
)
_SIZE = re.compile(r"(\d+)(?:([KMGT])B?)?", re.IGNORECASE)
_SIZE_MIB = {"m": 1, "": 1, "g": 1024, "t": 1024**2}
_GPUS = re.compile(r"(?:gpu:)?(?:([A-Za-z][A-Za-z0-9._-]*):)?(\d+)")
_DIGITS_MAX = 9


def duration(option: str, text: str) -> str:
    """`30`, `30:00`, `1:30:00`, `2-12`, `2-12:30`, `2-12:30:00` as a job file's duration; empty for
    `UNLIMITED` and 0, which set no limit. Raises `SlurmError`.
    """
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return ""
    found = [(pattern.fullmatch(text), units_s) for pattern, units_s in _TIMES]
    fitting = [(match.groups(), units_s) for match, units_s in found if match is not None]
    if not fitting or len(text) > 2 * _DIGITS_MAX:
        refuse(option, text, "is no time", "90, 1:30:00 and 2-12:00:00 are")
    parts, units_s = fitting[0]
    total_s = sum(int(part) * unit_s for part, unit_s in zip(parts, units_s, strict=True) if part)
    return f"{total_s}s" if total_s else ""


def size_mib(option: str, text: str) -> int:
    """`4096`, `16G`, `1T` in MiB; `512K` rounded up. Raises `SlurmError`."""
    found = _SIZE.fullmatch(text)
    if found is None or len(text) > _DIGITS_MAX + 2:
        refuse(option, text, "is no size", "4096 (MiB), 16G and 1T are")
    unit = (found[2] or "").lower()
    if unit == "k":
        return -(-int(found[1]) // 1024)
    return int(found[1]) * _SIZE_MIB[unit]


def count(option: str, text: str, *, low: int = 1) -> int:
    """A whole number of at least `low`. Raises `SlurmError`."""
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX or int(text) < low:
        refuse(option, text, f"must be a whole number of at least {low}")
    return int(text)


def gpus(option: str, text: str) -> tuple[str, int]:
    """`2`, `H100:2`, and for `--gres` with `gpu:` before it: the type (empty: any) and how many.
    Raises `SlurmError`.
    """
    if option == "gres":
        if text != "gpu" and not text.startswith("gpu:"):
            refuse(option, text, "only GPUs are handed out", "gpu:2 or gpu:H100:2")
        text = text.removeprefix("gpu").removeprefix(":") or "1"
        text = text if text[-1].isdecimal() and not text[0].isalpha() else _counted(text)
    found = _GPUS.fullmatch(text)
    if found is None or len(found[2]) > _DIGITS_MAX:
        refuse(option, text, "is no number of GPUs of one type", "2 or H100:2")
    return found[1] or "", int(found[2])


def _counted(text: str) -> str:
    """`H100` alone is one of them."""
    return text if re.search(r":\d+$", text) else f"{text}:1"
