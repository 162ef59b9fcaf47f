"""How reading a document ends early: with the one line that says what is wrong with it.

Rule: the exception stays inside this package; every public function returns the refusal as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import msgspec

from headrace.events import Refusal

SHOWN_MAX = 60  # characters of a value in a message
NOT_YET = "not yet"


class DocumentError(Exception):
    """The document cannot be taken as it is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def refuse(field: str, rule: str, *, value: object = None, instead: str = "") -> NoReturn:
    """End reading. Raises `DocumentError`."""
    raise DocumentError(Refusal(field=field, value=shown(value), rule=rule, instead=instead))


def not_yet(field: str, *, value: object = None, instead: str = "") -> NoReturn:
    """Part of the shape, not built: never ignored. Raises `DocumentError`."""
    refuse(field, NOT_YET, value=value, instead=instead)


def shown(value: object) -> str:
    """A value as it stands in a message: short, on one line, nothing a terminal would obey."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if len(text) > SHOWN_MAX:
        text = text[: SHOWN_MAX - 1] + "…"
    return "".join(c if c.isprintable() else "?" for c in text)


def with_line(refusal: Refusal, lines: Mapping[str, int]) -> Refusal:
    """The refusal with the line of its field, or of the nearest field around it, when known."""
    path = refusal.field
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    if not path:
        return refusal
    line = f"(line {lines[path]})"
    if refusal.instead:
        return msgspec.structs.replace(refusal, instead=f"{refusal.instead} {line}")
    return msgspec.structs.replace(refusal, rule=f"{refusal.rule} {line}")
