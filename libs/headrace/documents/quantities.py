"""Amounts as people write them, as exact integers.

Rule: no floats. A decimal is taken digit by digit; what is finer than the unit kept is refused, not
rounded. `GB` is 10⁹ bytes, `GiB` 2³⁰.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from headrace.documents.refusing import refuse
from headrace.events.base import INTEGER_MAX

MILLI = 1000

DURATION_UNITS_US = {
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
BYTE_UNITS = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", 1)},
}
DURATIONS = "90s, 15m, 8h or 3d"
SIZES = "8GB (10⁹ bytes) or 8GiB (2³⁰ bytes)"

_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,18})?")
_DURATION = re.compile(rf"({_NUMBER.pattern}) ?([smhd])")
_SIZE = re.compile(rf"({_NUMBER.pattern}) ?([kmgtp]?i?b)", re.IGNORECASE)


def number_text(value: object) -> str | None:
    """The digits of a number given as a number or as text, without exponent; None when it is none."""
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) >= INTEGER_MAX):
        return None
    if isinstance(value, float):
        value = format(Decimal(repr(value)), "f")
    text = str(value) if isinstance(value, int | str) else ""
    return text if _NUMBER.fullmatch(text) else None


def milli(field: str, value: object) -> int:
    """Thousandths of a number that is not negative: `0.5` is 500. Raises `DocumentError`."""
    text = number_text(value)
    if text is None:
        refuse(field, "must be a number, not negative", value=value, instead="such as 2 or 0.5")
    exact = Fraction(text) * MILLI
    if exact.denominator != 1:
        refuse(field, "is finer than thousandths", value=value, instead="such as 0.125")
    return _within(field, value, int(exact))


def duration_us(field: str, value: object) -> int:
    """`90s`, `15m`, `8h`, `3d` in µs. Raises `DocumentError`."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        refuse(field, "is not a duration", value=value, instead=DURATIONS)
    exact = Fraction(found[1]) * DURATION_UNITS_US[found[2]]
    if exact.denominator != 1 or exact == 0:
        refuse(field, "must be a whole number of µs above 0", value=value, instead=DURATIONS)
    return _within(field, value, int(exact))


def byte_size(field: str, value: object) -> int:
    """`8GB`, `512MiB` in bytes. Raises `DocumentError`."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        refuse(field, "is not a size with its unit", value=value, instead=SIZES)
    exact = Fraction(found[1]) * BYTE_UNITS[found[2].lower()]
    if exact.denominator != 1 or exact == 0:
        refuse(field, "must be a whole number of bytes above 0", value=value, instead=SIZES)
    return _within(field, value, int(exact))


def whole(field: str, value: object, low: int, high: int) -> int:
    """A whole number from `low` to `high`, as a number or its digits. Raises `DocumentError`."""
    text = number_text(value)
    if text is None or not text.isdecimal() or not low <= int(text) <= high:
        refuse(field, f"must be a whole number from {low} to {high}", value=value)
    return int(text)


def is_size(text: str) -> bool:
    """Whether the text is written as a size, `24GB`."""
    return _SIZE.fullmatch(text) is not None


def _within(field: str, value: object, amount: int) -> int:
    if amount >= INTEGER_MAX:
        refuse(field, "is too large", value=value)
    return amount
