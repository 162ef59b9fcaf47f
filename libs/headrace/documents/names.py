"""Names: what things, pools and levels of a topology may be called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.documents.refusing import refuse

POOLS_MAX = 8
NAME_RULE = "has 1 to 41 of a-z 0-9 and '-', not starting with '-'"
LABEL_RULE = "has 1 to 63 letters, digits and . _ / -, beginning with a letter or digit"

RESERVED = ("fleet",)  # as a project on the bus it stands for the whole fleet

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


def name_of(field: str, value: str) -> str:
    """The name, if it is one. Raises `DocumentError`."""
    if not NAME.fullmatch(value):
        refuse(field, NAME_RULE, value=value or None)
    return value


def level_of(field: str, value: str) -> str:
    """The level of a topology, which is the name of a label. Raises `DocumentError`."""
    if not LABEL.fullmatch(value):
        refuse(field, LABEL_RULE, value=value or None)
    return value


def pool_names(field: str, names: Sequence[str]) -> tuple[str, ...]:
    """Pools in the order in which they are tried. Raises `DocumentError`."""
    if len(names) > POOLS_MAX:
        refuse(field, f"has at most {POOLS_MAX} pools")
    for i, name in enumerate(names):
        name_of(f"{field}[{i}]", name)
        if name in names[:i]:
            refuse(f"{field}[{i}]", "is named twice", value=name)
    return tuple(names)
