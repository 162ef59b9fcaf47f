"""Options as they are written, on a command line or behind `#SBATCH`.

Rule: what is not in the table of options is refused by name with the nearest that is, and what is in
it but not built with what to use instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NoReturn

from headrace.documents.nearest import nearest
from headrace.slurm.options import BY_LETTER, BY_NAME, NEEDED, NONE, Option

LINES_MAX = 10_000  # of a script that are looked at
DIRECTIVE = "#SBATCH"
HETEROGENEOUS = "not here; instead: roles: in a job file"


class SlurmError(Exception):
    """The script or the options cannot be taken as they are; the text is for the user."""


def refuse(option: str, value: str, rule: str, instead: str = "") -> NoReturn:
    """End reading. Raises `SlurmError`."""
    given = f"--{option}={value}" if value else f"--{option}"
    raise SlurmError(f"{given}: {rule}" + (f"; {instead}" if instead else ""))


def read_words(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options at the beginning of a command line, the last of each name, and the words behind
    them (script and arguments). Raises `SlurmError`.
    """
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        option, value = _option(word, rest)
        if not option.field and not option.unused:
            _refuse_option(option)
        options[option.name] = value
    if rest[:1] == [":"]:
        raise SlurmError(f"a colon: {HETEROGENEOUS}")
    return options, rest


def read_script(text: str) -> dict[str, str]:
    """The options of a script's `#SBATCH` lines, which end at its first command. Raises `SlurmError`
    with every line that cannot be taken.
    """
    options: dict[str, str] = {}
    wrong: list[str] = []
    for number, line in enumerate(text.splitlines()[:LINES_MAX], 1):
        if not line.startswith("#") and line.strip():
            break
        if not line.startswith(DIRECTIVE):
            continue
        try:
            options.update(_directive(line.removeprefix(DIRECTIVE)))
        except SlurmError as error:
            wrong.append(f"line {number}: {error}")
    if wrong:
        raise SlurmError("\n".join(wrong))
    return options


def _directive(text: str) -> dict[str, str]:
    try:
        found, rest = read_words(shlex.split(text, comments=True))
    except ValueError as error:
        raise SlurmError(str(error).lower()) from None
    if rest == ["hetjob"]:
        raise SlurmError(f"hetjob: {HETEROGENEOUS}")
    if rest:
        raise SlurmError(f"{rest[0]} is not an option")
    return found


def _option(word: str, rest: list[str]) -> tuple[Option, str]:
    """The option a word begins, and its value, which may be the next word."""
    if word.startswith("--"):
        name, has_value, value = word[2:].partition("=")
        option = BY_NAME.get(name) or _unknown(name)
    else:
        option = BY_LETTER.get(word[1]) or _unknown_letter(word[1])
        value = word[2:].removeprefix("=")
        has_value = value
    if option.value == NONE and has_value:
        refuse(option.name, value, "takes no value")
    if option.value == NEEDED and not has_value:
        if not rest:
            refuse(option.name, "", "needs a value")
        value = rest.pop(0)
    return option, value


def _unknown(name: str) -> NoReturn:
    near = nearest(name, BY_NAME)
    meant = f"; did you mean --{near}?" if near else ""
    raise SlurmError(f"--{name}: sbatch has no such option{meant}")


def _unknown_letter(letter: str) -> NoReturn:
    raise SlurmError(f"-{letter}: sbatch has no such option")


def _refuse_option(option: Option) -> NoReturn:
    instead = option.instead
    if instead.startswith("nothing: "):
        raise SlurmError(f"--{option.name}: leave it out: {instead.removeprefix('nothing: ')}")
    raise SlurmError(f"--{option.name}: not here; instead: {instead}")
