"""Where a placeholder stands in the text of a bash script, and whether a value may be read there.

Rule: a value never becomes part of a script. In a plain word or in double quotes a placeholder turns
into a reference to an environment variable, which bash reads and does not parse again. Everywhere else
it is refused: where bash would not read the variable (single quotes), where it would evaluate what it
reads (arithmetic, subscripts, `[[ ]]`), and where another program would run it (`eval`, `bash -c`,
here-documents). What a script does with a value that it has read is its own affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SHELL = ("/bin/bash", "-eu", "-o", "pipefail", "-c")  # what runs a command that is given as text
TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)

_PLAIN, _DOUBLE, _SINGLE, _ANSI = "plain", '"', "'", "$'"
_BRACES, _ARITHMETIC, _NESTED, _OLD_ARITHMETIC = "{", "((", "(", "$["
_TEST, _BACKTICK, _COMMAND, _LOST = "[[", "`", "$(", "lost"

_REASONS = {
    _SINGLE: "bash reads no variable in single quotes",
    _ANSI: "bash reads no variable in single quotes",
    _BRACES: "inside ${ } a value could be read as a pattern or a subscript",
    _ARITHMETIC: "bash evaluates a value in arithmetic, and what it names",
    _NESTED: "bash evaluates a value in arithmetic, and what it names",
    _OLD_ARITHMETIC: "bash evaluates a value in arithmetic, and what it names",
    _TEST: "inside [[ ]] bash may evaluate a value; [ ] does not",
    _BACKTICK: "inside backticks quotes mean something else; $( ) is the same without that",
    _LOST: "what stands before it is not understood well enough",
}
_HERE_DOCUMENT = "in a here-document a value could be run by the program that reads it"
_OPENS = (  # the longest first
    ("$((", _ARITHMETIC),
    ("$(", _COMMAND),
    ("${", _BRACES),
    ("$[", _OLD_ARITHMETIC),
    ("`", _BACKTICK),
)
_DELIMITER = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;|&<>()'\"$`\\]+))")
_EVALUATES = re.compile(
    r"(?:^|[({])[\s!]*(?:(?:if|while|until|then|elif|else|do|time|command|builtin|exec)\s+)*"
    r"(?:eval|let|declare|typeset|local|readonly|export|unset|trap|source|\.|printf\s+-v)\s.*$"
    r"|(?:^|[\s/(\"'])(?:(?:ba|da|z|k|a)?sh(?:\s+[-+]o\s+\w+|\s+[-+]\S+)*\s+-\w*c"
    r"|(?:python[\d.]*|perl|ruby|node|php)(?:\s+-[WX]\s+\S+|\s+-\S+)*\s+-\w*[ce])\s.*$"
)
_ASSIGNS = re.compile(
    r"(?:declare|typeset|local|readonly|export)(?:\s+-[gxr]+)*\s+\w+=\"?[^\s;|&]*$"
)
_NAMES_VARIABLE = re.compile(r"\s-[vR]\s+\"?$")
_SUBSCRIPT = re.compile(r"\w\[[^\]\s]*$")
_LINE = re.compile(r"[;|&\n]")


class Place(NamedTuple):
    """A placeholder at `text[start:end]`. `refusal` says why no value may be read there."""

    start: int
    end: int
    name: str
    is_quoted: bool
    refusal: str


def places(text: str) -> Iterator[Place]:
    """Every placeholder of a script, in order, but for those in comments."""
    return _Reader(text).places()


class _Reader:
    """Follows the quoting of one script. `_inside` is what is open, the innermost last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._inside = [_PLAIN]
        self._documents: list[tuple[str, bool]] = []  # delimiters, and whether tabs go

    def places(self) -> Iterator[Place]:
        text = self._text
        while self._at < len(text):
            found = TEMPLATE.match(text, self._at)
            if found is not None:
                yield self._place(found, self._refusal())
                self._at = found.end()
            elif self._inside[-1] in (_PLAIN, _COMMAND):
                yield from self._plain()
            else:
                self._other()

    def _place(self, found: re.Match[str], refusal: str) -> Place:
        is_quoted = self._inside[-1] == _DOUBLE
        return Place(found.start(), found.end(), found[1].strip(), is_quoted, refusal)

    def _refusal(self) -> str:
        for context in self._inside:
            if context in _REASONS:
                return _REASONS[context]
        before = self._text[: self._at]
        if before.endswith(("\\", "$")):
            return f"{before[-1]} before it would change what bash reads"
        segment = _LINE.split(before)[-1]
        if _SUBSCRIPT.search(segment):
            return "bash evaluates a value in a subscript, and what it names"
        if _NAMES_VARIABLE.search(segment):
            return "bash evaluates what it takes for a variable's name"
        if _EVALUATES.search(segment) and not _ASSIGNS.search(segment):
            return "it would be run as code by what stands before it"
        return ""

    def _plain(self) -> Iterator[Place]:
        """One step outside of quotes; a here-document as a whole."""
        text, at = self._text, self._at
        is_word_start = at == 0 or text[at - 1] in " \t\n;|&()"
        if text[at] == "\n" and self._documents:
            yield from self._here_documents()
        elif text[at] == "#" and is_word_start:
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif text.startswith("<<", at):
            self._redirect()
        elif is_word_start and re.compile(r"\[\[\s").match(text, at):
            self._open(_TEST, 2)
        elif is_word_start and self._inside[-1] == _COMMAND and text.startswith("case", at):
            self._open(_LOST, 4)  # its patterns end in ), which would end the command
        elif text.startswith("((", at):
            self._open(_ARITHMETIC, 2)
        elif text.startswith("$'", at):
            self._open(_ANSI, 2)
        elif text[at] == "'":
            self._open(_SINGLE, 1)
        elif text[at] == "(":
            self._open(_COMMAND, 1)
        elif text[at] == ")" and self._inside[-1] == _COMMAND:
            self._close(1)
        else:
            self._other()

    def _other(self) -> None:
        """One step in quotes or in an expansion, and what is alike outside of them."""
        text, at, inside = self._text, self._at, self._inside[-1]
        if inside == _SINGLE:
            self._close(1) if text[at] == "'" else self._skip(1)
        elif text[at] == "\\":
            self._skip(1 if TEMPLATE.match(text, at + 1) else 2)
        elif text.startswith(_CLOSES.get(inside, "\0"), at):
            self._close(len(_CLOSES[inside]))
        elif inside in (_ANSI, _LOST):
            self._skip(1)
        elif text[at] == '"':
            self._open(_DOUBLE, 1)
        elif text[at] == "'" and _DOUBLE not in self._inside:
            self._open(_SINGLE, 1)
        elif text[at] == "(" and inside in (_ARITHMETIC, _NESTED):
            self._open(_NESTED, 1)
        else:
            opened = next(((o, c) for o, c in _OPENS if text.startswith(o, at)), None)
            self._open(opened[1], len(opened[0])) if opened else self._skip(1)

    def _redirect(self) -> None:
        """`<<<` is a word; `<<` begins a here-document on the next line."""
        if self._text.startswith("<<<", self._at):
            self._skip(3)
            return
        found = _DELIMITER.match(self._text, self._at)
        if found is None:
            self._open(_LOST, 2)
            return
        self._documents.append((found[2] or found[3] or found[4], bool(found[1])))
        self._at = found.end()

    def _here_documents(self) -> Iterator[Place]:
        self._skip(1)
        for delimiter, tabs_go in self._documents:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                for found in TEMPLATE.finditer(self._text, self._at, end):
                    yield self._place(found, _HERE_DOCUMENT)
                self._at = min(end + 1, len(self._text))
                if (line.lstrip("\t") if tabs_go else line) == delimiter:
                    break
        self._documents.clear()

    def _open(self, context: str, length: int) -> None:
        self._inside.append(context)
        self._at += length

    def _close(self, length: int) -> None:
        self._inside.pop()
        self._at += length

    def _skip(self, length: int) -> None:
        self._at += length


_CLOSES = {
    _DOUBLE: '"',
    _ANSI: "'",
    _BRACES: "}",
    _ARITHMETIC: "))",
    _NESTED: ")",
    _OLD_ARITHMETIC: "]",
    _TEST: "]]",
    _BACKTICK: "`",
}
