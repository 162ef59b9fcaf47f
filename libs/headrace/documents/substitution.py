"""`${{ … }}`, the only templating: values that are known when a task runs.

Rule: names are checked when the job is submitted; filling in never fails and leaves what it does not
know as it is written. The names are `params.X`, `job.id`, `job.index` and `project`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from headrace.documents.nearest import nearest
from headrace.documents.refusing import not_yet, refuse

TEMPLATES_MAX = 256  # in one job file: a value may be long, and each place gets a copy

_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)

L = TypeVar("L", bound=msgspec.Struct)


def substitute(launch: L, *, params: Mapping[str, str], job: str, index: int, project: str) -> L:
    """The launch (any Struct with `command`, `commands`, `setup`, `env`,
    `workdir`) with its templates filled.
    """
    values = {f"params.{name}": value for name, value in params.items()}
    values |= {"job.id": job, "job.index": str(index), "project": project}

    def fill(text: str) -> str:
        return _TEMPLATE.sub(lambda found: values.get(found[1].strip(), found[0]), text)

    filled: Any = launch
    return msgspec.structs.replace(
        launch,
        command=_each(fill, filled.command),
        commands={role: _each(fill, command) for role, command in filled.commands.items()},
        setup=_each(fill, filled.setup),
        env={name: fill(value) for name, value in filled.env.items()},
        workdir=fill(filled.workdir),
    )


def check_templates(
    texts: Iterable[tuple[str, str]], params: Iterable[str], *, is_group: bool
) -> None:
    """Whether every template in `(field, text)` pairs has a value. Raises `DocumentError`."""
    known = [f"params.{name}" for name in params]
    known += ["job.id", "project"]
    if is_group:
        known.append("job.index")
    count = 0
    for field, text in texts:
        for found in _TEMPLATE.finditer(text):
            count += 1
            if count > TEMPLATES_MAX:
                refuse(field, f"a job may have at most {TEMPLATES_MAX} templates")
            if found[1].strip() not in known:
                _refuse_name(field, found[0], found[1].strip(), known)


def _refuse_name(field: str, template: str, name: str, known: list[str]) -> None:
    if name.startswith("event."):
        not_yet(field, value=template)
    if name == "job.index":
        rule = "only a task of an array or a sweep has an index"
        refuse(field, rule, value=template, instead="add array: or sweep:")
    near = nearest(name, known)
    instead = f"did you mean {near}?" if near else f"known: {', '.join(known[:10])}"
    refuse(field, "no such value", value=template, instead=instead)


def _each(fill: Callable[[str], str], texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(fill(text) for text in texts)
