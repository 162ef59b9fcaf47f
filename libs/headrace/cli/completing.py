"""`completion`: what a shell asks when Tab is pressed.

Rule: verbs, actions and options come from the parsers themselves, and names from the platform within
`NAMES_S_MAX`; when anything is wrong there is nothing to complete, and nothing is said.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import threading
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence

from headrace.cli.arguments import Parser
from headrace.cli.exits import DONE
from headrace.client.client import Client

NAMES_S_MAX = 1.0
SHELLS = ("bash", "zsh", "fish")
ASK = "--ask"  # what the shell's function calls it with: the words so far, the last one begun

_SCRIPTS = {
    "bash": """_headrace() {
  local IFS=$'\\n'
  COMPREPLY=($(headrace completion --ask "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _headrace headrace""",
    "zsh": """#compdef headrace
_headrace() {
  local -a found
  found=("${(@f)$(headrace completion --ask "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( ${#found} )) && [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _headrace headrace""",
    "fish": """function __headrace_ask
  headrace completion --ask (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null
end
complete -c headrace -f -n 'count (__headrace_ask)' -a '(__headrace_ask)'""",
}

JOBS = frozenset(("JOB",))
NODES = frozenset(("NODE",))
TEMPLATES = frozenset(("TEMPLATE",))


def completion_options(parser: ArgumentParser) -> None:
    """The arguments of `completion`."""
    parser.add_argument(
        "shell", choices=SHELLS, nargs="?", default="bash", help="which shell (bash)"
    )
    parser.add_argument(ASK, nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def completion(*, shell: str, ask: list[str] | None) -> int:
    """Print the shell's function, to be read at its start; or what could stand here."""
    if ask is None:
        print(_SCRIPTS[shell])
        return DONE
    found: list[str] = []
    asking = threading.Thread(target=_ask, args=(ask, found), daemon=True)
    asking.start()
    asking.join(NAMES_S_MAX)
    if found:
        print("\n".join(found))
    return DONE


def _ask(words: Sequence[str], found: list[str]) -> None:
    with contextlib.suppress(Exception, SystemExit):
        found.extend(completions(words))


def completions(words: Sequence[str]) -> list[str]:
    """What the last of the words could become, in order."""
    from headrace.cli.app import VERBS

    *before, begun = words or [""]
    if not before:
        return _beginning(begun, VERBS)
    verb = VERBS.get(before[0])
    if verb is None or verb.is_foreign:
        return []
    parser = Parser(prog="headrace", allow_abbrev=False)
    module = importlib.import_module(f"headrace.cli.{verb.module}")
    getattr(module, f"{before[0].replace('-', '_')}_options")(parser)
    return _beginning(begun, _candidates(parser, before[1:], begun))


def _candidates(parser: ArgumentParser, before: Sequence[str], begun: str) -> Iterable[str]:
    """What may follow the words before: an action, an option, its value, a name."""
    words = list(before)
    while (actions := _actions(parser)) is not None:
        while words and words[0].startswith("-"):
            words.pop(0)
        if not words:
            return actions
        parser = actions.get(words.pop(0), ArgumentParser(add_help=False))
    options = {name: each for each in parser._actions for name in each.option_strings}  # noqa: SLF001
    last = options.get(words[-1]) if words else None
    if last is not None and last.nargs != 0:
        return _values(last)
    if begun.startswith("-"):
        return options
    for positional in parser._actions:  # noqa: SLF001
        if not positional.option_strings:
            return _values(positional)
    return ()


def _actions(parser: ArgumentParser) -> dict[str, ArgumentParser] | None:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return None


def _values(action: argparse.Action) -> Iterable[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    what = {str(action.metavar), *action.option_strings}
    if what & JOBS:
        return [row.job for row in _client().jobs(state="live").jobs]
    if what & NODES:
        return [row.node for row in _client().nodes()]
    if what & TEMPLATES:
        return [row.name for row in _client().templates()]
    if what & {"-p", "--project", "PROJECT"}:
        return [row.project for row in _client().projects() if row.kind == "project"]
    return ()


def _client() -> Client:
    return Client.from_config(url="", token="")


def _beginning(begun: str, words: Iterable[str]) -> list[str]:
    return sorted(word for word in words if word.startswith(begun))
