"""How reading a document ends early: with the one line that says what is wrong with it.

Rule: the exception stays inside this package; every public function returns the refusal as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import msgspec

from headrace.events import Refusal

SHOWN_MAX = 60  # characters of a value in a message
LINE_MAX = 1000  # of what is said about it
FIELD_MAX = 160  # of a field's name, which whoever wrote the document may have chosen
NOT_YET = "not yet"


class DocumentError(Exception):
    """The document cannot be taken as it is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def refuse(field: str, rule: str, *, value: object = None, instead: str = "") -> NoReturn:
    """End reading. Raises `DocumentError`."""
    refusal = Refusal(
        field=_line(field, FIELD_MAX), value=shown(value), rule=_line(rule), instead=_line(instead)
    )
    raise DocumentError(refusal)


def not_yet(field: str, *, value: object = None, instead: str = "") -> NoReturn:
    """Part of the shape, not built: never ignored. Raises `DocumentError`."""
    refuse(field, NOT_YET, value=value, instead=instead)


def shown(value: object) -> str:
    """A value as it stands in a message: short, on one line, nothing a terminal would obey."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _line(text, SHOWN_MAX)


def _line(text: str, length_max: int = LINE_MAX) -> str:
    if len(text) > length_max:
        text = text[: length_max - 1] + "…"
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


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
