"""Where a placeholder stands in the text of a bash script, and whether a value may be read there.

Rule: a value never becomes part of a script. A placeholder turns into a reference to an environment
variable, which bash reads and does not parse again, in three places: as an argument of a command whose
name is written out and is no bash builtin but a harmless one, as what is assigned to a variable that is
not special, and as a redirection's target. Everywhere else it is refused: where bash would not read the
variable (single quotes), would evaluate what it reads (arithmetic, names of variables, most builtins),
or where an interpreter would run it (`bash -c`, here-documents). Names are compared after their quotes
are removed. What a script does with a variable or a program with an argument is its own affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

SHELL = ("/bin/bash", "-e", "-o", "pipefail", "-c")  # what runs a command that is given as text
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
_EXPANSION = "\0"  # stands in a word for what is known only when the script runs
_OPERATOR = re.compile(r"(<<<|<>|<&|>>|>&|>\||<|>|&>>|&>)(?!\()")
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
SPECIAL = re.compile(  # variables by which bash, or the loader, finds code, or which it evaluates
    r"BASH\w*|ENV|PS[0-4]|PROMPT_COMMAND|IFS|PATH|CDPATH|SHELLOPTS|POSIXLY_CORRECT|GLOBIGNORE|LD_\w+"
    r"|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH\w+|HIST\w+|OPT(?:ARG|ERR|IND)|COMP\w+|DIRSTACK|FUNC\w+"
    r"|E?UID|PPID|GROUPS|PIPESTATUS|MAPFILE|REPLY|COPROC|SHELL|SHLVL|TIMEFORMAT|EXECIGNORE|_"
)
_ATTRIBUTE = re.compile(
    r"(?:declare|typeset|local|readonly|export)\b(?:\\\n|[^;|&\n])*\s[-+]\w*[aAin]"
)
_COMMAND_NAME = re.compile(r"[\w.+@%:,-]+")
_PATH_NAME = re.compile(r"[\w.+@%:,~/\0-]*/[\w.+@%:,~/\0-]*")
_LEADING = frozenset(
    {"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "esac", "time"}
    | {"{", "}", "!", "exec", "command"}
)
_COMPOUND_ENDS = frozenset(("fi", "done", "esac", "}"))
_BASH_WORDS = (  # the builtins and reserved words of bash 5.2
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare"
    " dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill"
    " let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt"
    " source suspend test times trap true type typeset ulimit umask unalias unset wait if then else"
    " elif fi case esac for select while until do done in function time { } ! [[ ]] coproc"
)
_NO_PROGRAMS = frozenset(_BASH_WORDS.split())
_HARMLESS = frozenset((":", "cd", "echo", "exit", "false", "pushd", "true"))
_DECLARES = frozenset(("declare", "typeset", "local", "readonly", "export"))
_DECLARED = re.compile(r"-[gxr]+|[A-Za-z_]\w*(?:=.*)?", re.DOTALL | re.ASCII)
_WRITES_NAME = re.compile(r"%[^%A-Za-z]*[hjlLqtz]*n")  # printf's %n assigns to the variable named
_INTERPRETER = re.compile(
    r"(?:.*/)?(?:(?:ba|da|z|k|a)?sh|python[\d.]*|perl|ruby|node|php)", re.DOTALL
)
_OPTIONS = r"(?:\s+[-+][oO]\s+\w+|\s+--(?:rcfile|init-file)\s+\S+|\s+[-+]\S+|\s+\S*\0\S*)*"
_CODE_NEXT = re.compile(  # what comes next is code, and what comes after that its arguments
    rf"(?:^|[\s/(\"'])(?:(?:ba|da|z|k|a)?sh{_OPTIONS}\s+-\w*c{_OPTIONS}"
    r"|python[\d.]*(?:\s+-[WX]\s+\S+|\s+-\S+)*\s+-\w*c)$"
)
_CODE_FROM_HERE = re.compile(  # of these, which take code more than once, all that follows is
    r"(?:^|[\s/(\"'])(?:perl|ruby|node|php)(?:\s+-\S+)*\s+-\w*[ce](?:\s.*)?$", re.DOTALL
)
_AS_CODE = "it would be run as code by what stands before it"
_AS_NAME = "bash evaluates what it takes for a variable's name"
_AS_COMMAND = "it would choose what bash runs"


@dataclass
class _Simple:
    """The simple command that is being read at one level of nesting, without its redirections.
    `word` is None between words.
    """

    kind: str = "("  # "(" and "$(" hold commands, "=(" the elements of an array, "?(" a pattern
    words: list[str] = field(default_factory=list)
    word: str | None = None
    redirection: str = ""  # the operator whose target is the current or the next word

    def add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def end_word(self) -> None:
        if self.word is not None and not self.redirection:
            self.words.append(self.word)
        if self.word is not None:
            self.word, self.redirection = None, ""

    def restart(self, *words: str) -> None:
        self.words, self.word, self.redirection = [*words], None, ""

    def redirect(self, operator: str) -> None:
        if self.word is not None and self.word.isdecimal():
            self.word = None  # the number of the file descriptor
        self.end_word()
        self.redirection = operator

    def refusal(self, *, has_attributes: bool) -> str:
        """Why the current word takes no value; empty if it does. `has_attributes` says that the
        script declares variables whose values bash evaluates.
        """
        word = self.word or ""
        if self.kind == "=(":
            return "bash evaluates a value in a subscript" if word.startswith("[") else ""
        if self.kind == "?(":
            return "inside a pattern in parentheses a value is not read as it is"
        words = list(self.words)
        last = ""
        while words and (words[0] in _LEADING or _ASSIGNS.match(words[0])):
            last = words.pop(0)
        if self.redirection:
            return self._refusal_of_target(words, last)
        assigned = _ASSIGNS.match(word)
        if assigned and SPECIAL.fullmatch(assigned[1]):
            return f"bash, or what it starts, evaluates {assigned[1]}"
        is_declared = words[:1] == ["for"] or (bool(words) and words[0] in _DECLARES)
        is_assigned = is_declared if words else assigned is not None
        if has_attributes and is_assigned:
            return "the script declares variables whose values bash evaluates"
        if not words:
            return "" if assigned else _AS_COMMAND
        if _takes_code(words, word):
            return _AS_CODE
        return _refusal_of_argument(words[0], words[1:], word)

    def _refusal_of_target(self, words: list[str], last: str) -> str:
        if self.redirection == "<<<" and any(map(_INTERPRETER.fullmatch, words)):
            return _AS_CODE
        if not words:
            return "" if last in _COMPOUND_ENDS or last == "exec" else _AS_COMMAND
        if words[0] in ("[", "test", "printf", "pwd"):
            return ""
        return _refusal_of_argument(words[0], words[1:], "")


def _takes_code(words: list[str], word: str) -> bool:
    """Whether an interpreter among these words would run the word that comes after them."""
    before, all_ = " ".join(words), " ".join([*words, word])
    is_next = _CODE_NEXT.search(before) is not None or _CODE_NEXT.search(all_) is not None
    return is_next or _CODE_FROM_HERE.search(all_) is not None


def _refusal_of_argument(name: str, arguments: list[str], word: str) -> str:
    """Why a value may not stand in an argument that begins with `word`."""
    before = arguments[-1] if arguments else ""
    if name in _HARMLESS:
        return ""
    if name in ("[", "test"):  # two values side by side could be -v and a name
        is_name = before in ("-v", "-R") or _EXPANSION in before or word[:2] in ("-v", "-R")
        return _AS_NAME if is_name else ""
    if name == "printf":
        form = arguments[0] if arguments else "-"
        is_open = form.startswith("-") or _EXPANSION in form or _WRITES_NAME.search(form)
        return _AS_NAME if is_open else ""
    if name in _DECLARES:
        is_assignment = _ASSIGNS.match(word) and all(map(_DECLARED.fullmatch, arguments))
        return "" if is_assignment else _AS_NAME
    if name == "for":
        is_item = len(arguments) >= 2 and arguments[1] == "in" and arguments[0].isidentifier()
        return "" if is_item and not SPECIAL.fullmatch(arguments[0]) else _AS_NAME
    if name == "case":
        return "" if not arguments else _AS_COMMAND
    if name in _NO_PROGRAMS:
        return _AS_CODE
    if name.startswith("-"):
        return _AS_COMMAND
    is_plain = _COMMAND_NAME.fullmatch(name) or _PATH_NAME.fullmatch(name)
    return "" if is_plain else "the name of the command before it is not written out"


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
        self._commands = [_Simple()]  # one for each _PLAIN and _COMMAND of `_inside`
        self._has_attributes = _ATTRIBUTE.search(text) is not None
        self._documents: list[tuple[str, bool]] = []  # delimiters, and whether tabs go

    def places(self) -> Iterator[Place]:
        text = self._text
        while self._at < len(text):
            found = TEMPLATE.match(text, self._at)
            if found is not None:
                yield self._place(found, self._refusal())
                self._commands[-1].add(_EXPANSION)
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
        for command, inner in zip(self._commands, [*self._commands[1:], None], strict=True):
            if inner is not None and inner.kind == "(":
                continue  # a subshell is no part of a word
            refusal = command.refusal(has_attributes=self._has_attributes)
            if refusal:
                return refusal
        return ""

    def _plain(self) -> Iterator[Place]:
        """One step outside of quotes; a here-document as a whole."""
        text, at, command = self._text, self._at, self._commands[-1]
        operator = _OPERATOR.match(text, at)
        is_word_start = at == 0 or text[at - 1] in " \t\n;|&()"
        if text[at] in " \t":
            command.end_word()
            self._at += 1
        elif text[at] == "\n" and self._documents:
            command.restart()
            yield from self._here_documents()
        elif text[at] == "#" and is_word_start:
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif text.startswith("<<", at):
            self._redirect()
        elif operator is not None:
            command.redirect(operator[1])
            self._at = operator.end()
        elif text[at] in "<>":
            self._at += 1  # of a process substitution
            self._open(_COMMAND, 1, "$(") if text.startswith("(", self._at) else None
        elif text[at] in ";|&\n":
            command.restart()
            self._at += 1
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
        elif text[at] in "()":
            self._parenthesis(command)
        else:
            self._other()

    def _parenthesis(self, command: _Simple) -> None:
        """A single one, outside of quotes."""
        text, at = self._text, self._at
        if text[at] == "(":
            is_function = re.compile(r"\(\s*\)").match(text, at)
            word = None if is_function else command.word
            kind = "(" if word is None else "=(" if word.endswith("=") else "?("
            self._open(_COMMAND, 1, kind)
        elif self._inside[-1] == _COMMAND:
            self._close(1)
        else:  # ends a pattern of `case`
            command.restart()
            self._at += 1

    def _other(self) -> None:
        """One step in quotes or in an expansion, and what is alike outside of them."""
        text, at, inside = self._text, self._at, self._inside[-1]
        if inside == _SINGLE:
            self._close(1) if text[at] == "'" else self._skip(1)
        elif text.startswith("\\\n", at) and inside in (_PLAIN, _COMMAND, _DOUBLE):
            self._at += 2  # one line, continued
        elif text[at] == "\\":
            self._at += 1
            self._skip(0 if TEMPLATE.match(text, at + 1) else 1)
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
            self._commands[-1].redirect("<<<")
            self._at += 3
            return
        found = _DELIMITER.match(self._text, self._at)
        if found is None:
            self._open(_LOST, 2)
            return
        self._documents.append((found[2] or found[3] or found[4], bool(found[1])))
        self._at = found.end()

    def _here_documents(self) -> Iterator[Place]:
        self._at += 1
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

    def _open(self, context: str, length: int, kind: str = "$(") -> None:
        is_quote = context in (_DOUBLE, _SINGLE)
        if context == _COMMAND:
            if kind != "(":
                self._commands[-1].add(_EXPANSION)
            self._commands.append(_Simple(kind))
        else:
            self._commands[-1].add("" if is_quote else _EXPANSION)
        self._inside.append(context)
        self._at += length

    def _close(self, length: int) -> None:
        if self._inside.pop() == _COMMAND and self._commands.pop().kind == "(":
            self._commands[-1].restart("}")
        self._at += length

    def _skip(self, length: int) -> None:
        """Takes characters as they are: into the word, if they are literally of one."""
        if self._inside[-1] in (_PLAIN, _COMMAND, _DOUBLE, _SINGLE):
            taken = self._text[self._at : self._at + length]
            self._commands[-1].add(taken.replace("$", _EXPANSION))
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
