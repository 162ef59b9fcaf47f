"""`${{ … }}`, the only templating: values that are known when a task runs.

Rule: a value is data. In a command or a setup that is given as text it is read from the environment,
in a list it is one argument or a part of one, in a path it is one name. Names are checked when the job
is submitted; filling in never fails and leaves what it does not know, or what has no place there, as it
is written. The names are `params.X`, whose values come from outside, and `job.id`, `job.index` and
`project`, which are Headrace's own words and stand anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from headrace.documents.nearest import nearest
from headrace.documents.refusing import not_yet, refuse
from headrace.documents.shell_text import SHELL, SPECIAL, TEMPLATE, places

TEMPLATES_MAX = 256  # in one job file: a value may be long, and each place gets a copy
VARIABLE = "HEADRACE_PARAM_"  # job files may not set names with HEADRACE_
CHECKPOINT_DIR = "HEADRACE_CHECKPOINT_DIR"

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")  # means nothing to any shell
_PART = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_+.-]*")  # of a path: never "..", never more than one
_PARAM = re.compile(r"params\.([A-Za-z_][A-Za-z0-9_]*)")
_INTERPRETER = re.compile(r"(?:ba|da|z|k|a)?sh|python[\d.]*|perl|ruby|node|php")
_OPTIONS_WITH_VALUE = ("-o", "+o", "-O", "+O", "-W", "-X")
_CODE_FOLLOWS = re.compile(r"-[A-Za-z]*[ce]|--eval|--command")

L = TypeVar("L", bound=msgspec.Struct)


class Text(NamedTuple):
    """What may have placeholders, in the field it stands in. A `code` is an argument that an
    interpreter runs; a `path` is filled with single names.
    """

    field: str
    text: str
    kind: Literal["script", "argument", "code", "value", "path"]


def variable_of(param: str) -> str:
    """The environment variable that holds a parameter's value."""
    return VARIABLE + param.upper()


def texts_of_command(field: str, argv: tuple[str, ...]) -> Iterator[Text]:
    """A command or a setup, part by part."""
    for index, part in enumerate(argv):
        before = argv[:index]
        if before == SHELL and index == len(argv) - 1:
            yield Text(field, part, "script")
        elif _runs_next(before):
            yield Text(field, part, "code")
        else:
            yield Text(field, part, "argument")


def substitute(launch: L, *, params: Mapping[str, str], job: str, index: int, project: str) -> L:
    """The launch (any Struct with `command`, `commands`, `setup`, `env`, `workdir`) with its
    templates filled. Scripts then read `variable_of` each parameter.
    """
    words = {"job.id": job, "job.index": str(index), "project": project}
    words = {name: word for name, word in words.items() if _WORD.fullmatch(word)}
    values = {f"params.{name}": value for name, value in params.items()} | words
    parts = {name: value for name, value in values.items() if _is_part(value)} | words

    def filled_command(argv: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            _script(text.text, values, words) if text.kind == "script"
            else _filled(text.text, words if text.kind == "code" else values)
            for text in texts_of_command("", argv)
        )  # fmt: skip

    given: Any = launch
    return msgspec.structs.replace(
        launch,
        command=filled_command(given.command),
        commands={role: filled_command(command) for role, command in given.commands.items()},
        setup=filled_command(given.setup),
        env={
            name: _filled(
                value,
                parts if name == CHECKPOINT_DIR else words if SPECIAL.fullmatch(name) else values,
            )
            for name, value in given.env.items()
        },
        workdir=_filled(given.workdir, parts),
    )


def check_templates(
    texts: Iterable[Text],
    params: Mapping[str, Iterable[str]],
    *,
    is_group: bool,
) -> None:
    """Whether every template has a value, and a place where a value may stand. `params` are the
    values that each parameter is known to take. Raises `DocumentError`.
    """
    known = [f"params.{name}" for name in params]
    known += ["job.id", "project"]
    if is_group:
        known.append("job.index")
    count = 0
    for text in texts:
        for found in TEMPLATE.finditer(text.text):
            count += 1
            if count > TEMPLATES_MAX:
                refuse(text.field, f"a job may have at most {TEMPLATES_MAX} templates")
            if found[1].strip() not in known:
                _refuse_name(text.field, found[0], found[1].strip(), known)
        _check_places(text, params)


def check_none(field: str, text: str) -> None:
    """Raises `DocumentError` for a template where none is filled in."""
    found = TEMPLATE.search(text)
    if found is not None:
        refuse(field, "has no values filled in", value=found[0], instead="write it out")


def _check_places(text: Text, params: Mapping[str, Iterable[str]]) -> None:
    """Whether values may stand where the templates of a text do."""
    if text.kind == "script":
        for place in places(text.text):
            param = _PARAM.fullmatch(place.name)
            if place.refusal and param is not None:
                value = text.text[place.start : place.end]
                instead = f'"${variable_of(param[1])}" outside of that, or read by the program'
                refuse(text.field, place.refusal, value=value, instead=instead)
    for found in TEMPLATE.finditer(text.text):
        param = _PARAM.fullmatch(found[1].strip())
        if param is None:
            continue
        if text.kind == "code":
            instead = f"the program can read {variable_of(param[1])}"
            refuse(text.field, "would be run as code", value=found[0], instead=instead)
        if text.kind == "value" and SPECIAL.fullmatch(text.field.rpartition(".")[2]):
            rule = "bash, or what it starts, evaluates this variable"
            refuse(text.field, rule, value=found[0], instead="a variable of another name")
        if text.kind == "path":
            for value in params[param[1]]:
                if not _is_part(value):
                    rule = f"{value[:80]!r} is not one name below a folder"
                    refuse(text.field, rule, value=found[0], instead="letters, digits, _ + . -")


def _script(text: str, values: Mapping[str, str], words: Mapping[str, str]) -> str:
    """The script with words put in and values read from the environment."""
    made, at = [], 0
    for place in places(text):
        param = _PARAM.fullmatch(place.name)
        if place.name in words:
            reference = words[place.name]
        elif place.name in values and param is not None and not place.refusal:
            reference = f"${{{variable_of(param[1])}}}"
            reference = reference if place.is_quoted else f'"{reference}"'
        else:
            continue
        made += [text[at : place.start], reference]
        at = place.end
    return "".join([*made, text[at:]])


def _filled(text: str, values: Mapping[str, str]) -> str:
    return TEMPLATE.sub(lambda found: values.get(found[1].strip(), found[0]), text)


def _is_part(value: str) -> bool:
    return _PART.fullmatch(value) is not None


def _runs_next(argv: tuple[str, ...]) -> bool:
    """Whether an interpreter runs the argument that follows: nothing but its options lie between."""
    if not argv or not _CODE_FOLLOWS.fullmatch(argv[-1]):
        return False
    for option, before in zip(argv[-2::-1], (*argv[-3::-1], ""), strict=False):
        if _INTERPRETER.fullmatch(option.rpartition("/")[2]):
            return True
        if not option.startswith(("-", "+")) and before not in _OPTIONS_WITH_VALUE:
            return False
    return False


def _refuse_name(field: str, template: str, name: str, known: list[str]) -> None:
    if name.startswith("event."):
        not_yet(field, value=template)
    if name == "job.index":
        rule = "only a task of an array or a sweep has an index"
        refuse(field, rule, value=template, instead="add array: or sweep:")
    near = nearest(name, known)
    instead = f"did you mean {near}?" if near else f"known: {', '.join(known[:10])}"
    refuse(field, "no such value", value=template, instead=instead)
