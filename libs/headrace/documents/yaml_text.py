"""Reads YAML text into plain documents and the lines their fields are on.

Rule: text in, data out, nothing else is touched. Values are read by YAML 1.2's core rules, so that
`on:` is a name and `no` is a word, except that decimals stay the text they are written as. Tags,
anchors and aliases are refused, and so is a field given twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from headrace.documents.refusing import DocumentError, refuse
from headrace.documents.shape import DEPTH_MAX, VALUES_MAX
from headrace.events import Refusal

TEXT_BYTES_MAX = 262_144
DOCUMENTS_MAX = 256

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class Document(NamedTuple):
    """One document of a file. `lines` has the line (from 1) of each field by its path, such as
    `resources.gpus` or `command[0]`, and of the document itself as the empty path.
    """

    fields: dict[str, Any]
    lines: dict[str, int]


def parse_documents(text: str | bytes) -> list[Document] | Refusal:
    """Every document of a file, in order; empty ones are left out."""
    try:
        return list(_documents(_decoded(text)))
    except DocumentError as error:
        return error.refusal
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        return Refusal(field="document", rule=f"is not YAML: {error.problem or 'unreadable'}{line}")
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100]
        return Refusal(field="document", rule=f"is not YAML: {reason}")


def _decoded(text: str | bytes) -> str:
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if len(data) > TEXT_BYTES_MAX:
        rule = f"may have at most {TEXT_BYTES_MAX} bytes"
        refuse("document", rule, value=f"{len(data)} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        refuse("document", f"is not UTF-8 text at byte {error.start}")


def _documents(text: str) -> Iterator[Document]:
    count = 0
    reading = _Reading(iter(yaml.parse(text, Loader=yaml.SafeLoader)))
    for event in reading.events:
        if not isinstance(event, yaml.DocumentStartEvent):
            continue
        count += 1
        if count > DOCUMENTS_MAX:
            refuse("document", f"a file may have at most {DOCUMENTS_MAX} documents")
        reading.lines = {"": event.start_mark.line + 1}
        fields = reading.value(next(reading.events), "", 1)
        if fields is None:
            continue
        if not isinstance(fields, dict):
            line = reading.lines[""]
            refuse("document", f"must be a mapping of names to values (line {line})")
        yield Document(fields, reading.lines)


class _Reading:
    """Builds values from YAML's events, so that depth and size are checked before they are built."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self.events = events
        self.lines: dict[str, int] = {}
        self._values = 0

    def value(self, event: yaml.Event, path: str, depth: int) -> Any:
        """The value that starts with this event."""
        line = event.start_mark.line + 1
        self.lines.setdefault(path, line)
        self._values += 1
        if depth > DEPTH_MAX or self._values > VALUES_MAX:
            rule = f"may have at most {DEPTH_MAX} levels and {VALUES_MAX} values (line {line})"
            refuse("document", rule)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            refuse(path or "document", f"anchors and aliases are not taken (line {line})")
        if getattr(event, "tag", None) not in (None, "!"):
            refuse(path or "document", f"tags are not taken (line {line})", value=event.tag)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event.value) if event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path, depth)
        return self._mapping(path, depth)

    def _list(self, path: str, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            values.append(self.value(event, f"{path}[{len(values)}]", depth + 1))
        return values

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            if not isinstance(event, yaml.ScalarEvent):
                refuse(path or "document", f"a name must be plain text (line {line})")
            name = event.value
            below = f"{path}.{name}" if path else name
            if name in fields:
                refuse(below, f"is given twice (line {line})")
            self.lines.setdefault(below, line)
            fields[name] = self.value(next(self.events), below, depth + 1)
        return fields


def _scalar(text: str) -> Any:
    """A plain scalar: null, true, false, a whole number; anything else is its text."""
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.fullmatch(text) else text
