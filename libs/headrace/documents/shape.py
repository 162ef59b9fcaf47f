"""Turns a decoded document into its Struct, or says which field does not belong and why.

Rule: nothing is ignored. A field that is unknown is refused with the nearest known name, one that is
known and not built is refused as `not yet`, one of the wrong type is refused with what it should be.
A field without a value (`setup:`) counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec

from headrace.documents.nearest import nearest
from headrace.documents.refusing import not_yet, refuse

DEPTH_MAX = 16  # levels of lists and mappings inside each other
VALUES_MAX = 50_000  # values in one document

_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


class Part(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A mapping of a document. Subclasses name their fields that are `not_yet` built, the `parts`
    that are mappings with a Struct of their own, and those that map any names to such parts (`each`).
    `elsewhere` tells of names that people look for here where they are.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {}
    not_yet: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[Parts] = {}
    each: ClassVar[Parts] = {}


Parts: TypeAlias = Mapping[str, type[Part]]


P = TypeVar("P", bound=Part)


def shaped(document: object, kind: type[P]) -> P:
    """The document as `kind`. Raises `DocumentError`."""
    _bounded(document)
    fields = _checked(document, kind, "")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        found = _AT.match(str(error))
        assert found is not None  # the pattern matches every text
        path = found["path"] or "document"
        refuse(path, _in_words(found["what"]), value=_scalar_at(fields, path))


def _checked(document: object, kind: type[Part], path: str) -> dict[str, Any]:
    """The fields that have a value, once every name is known and built."""
    if not isinstance(document, Mapping):
        name = path.removesuffix(".") or "document"
        refuse(name, "must be a mapping of names to values", value=_scalar(document))
    known = kind.__struct_encode_fields__
    fields: dict[str, Any] = {}
    for name, value in document.items():
        if not isinstance(name, str) or name not in known:
            _refuse_unknown(path, name, kind)
        if value is None:
            continue
        if name in kind.not_yet:
            not_yet(f"{path}{name}")
        fields[name] = _checked_value(value, kind, name, f"{path}{name}")
    return fields


def _checked_value(value: object, kind: type[Part], name: str, path: str) -> object:
    """One field's value: as it is, as a part, or as a part under each of its names."""
    if name in kind.parts:
        return _checked(value, kind.parts[name], f"{path}.")
    if name not in kind.each:
        return value
    if not isinstance(value, Mapping):
        refuse(path, "must be a mapping of names to values", value=_scalar(value))
    part = kind.each[name]
    return {key: _checked(below, part, f"{path}.{key}.") for key, below in value.items()}


def _refuse_unknown(path: str, name: object, kind: type[Part]) -> None:
    text = str(name)[:64]
    if text in kind.elsewhere:
        refuse(f"{path}{text}", "unknown field", instead=kind.elsewhere[text])
    for part_name, part in kind.parts.items():
        if text in part.__struct_encode_fields__:
            refuse(f"{path}{text}", "unknown field", instead=f"did you mean {part_name}.{text}?")
    near = nearest(text, kind.__struct_encode_fields__)
    refuse(f"{path}{text}", "unknown field", instead=f"did you mean {near}?" if near else "")


def _bounded(document: object) -> None:
    """Raises `DocumentError` for a document that is too deep or too large to walk."""
    level, depth, count = [document], 0, 0
    while level:
        depth += 1
        count += len(level)
        if depth > DEPTH_MAX or count > VALUES_MAX:
            refuse("document", f"may have at most {DEPTH_MAX} levels and {VALUES_MAX} values")
        below: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                below.extend(value.values())
            elif isinstance(value, list | tuple):
                below.extend(value)
        level = below


def _in_words(what: str) -> str:
    """Msgspec's message without its notation: `Expected `int`, got `array``."""

    def kinds(found: re.Match[str]) -> str:
        words = [_WORDS.get(word, word) for word in found[1].split(" | ")]
        if "a number" in words:
            words = [word for word in words if word != "a whole number"]
        return " or ".join(words)

    words = re.sub(r"`([^`]*)`", kinds, what)
    return f"{words[:1].lower()}{words[1:]}"


def _scalar_at(fields: Any, path: str) -> object:
    for name in re.findall(r"[^.\[\]]+", path):
        if isinstance(fields, Mapping):
            fields = fields.get(name)
        elif isinstance(fields, list) and name.isdecimal() and int(name) < len(fields):
            fields = fields[int(name)]
        else:
            return None
    return _scalar(fields)


def _scalar(value: object) -> object:
    return value if isinstance(value, str | int | float) else None
