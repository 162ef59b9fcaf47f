"""The parser of a verb's arguments, and the options that many verbs share."""

from __future__ import annotations

import re
import sys
from argparse import (
    ZERO_OR_MORE,
    Action,
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    RawDescriptionHelpFormatter,
)
from collections.abc import Sequence
from typing import Any, NoReturn

from headrace.cli.exits import USAGE, report

FORMATS = ("table", "wide", "json", "yaml")
NOT_YET = ("--at",)  # options that will be there

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(us|ms|s|m|h|d)$")
_UNIT_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


class Parser(ArgumentParser):
    """An `ArgumentParser` whose errors are one line and say what was probably meant."""

    def __init__(self, **given: Any) -> None:
        super().__init__(formatter_class=_narrow, **given)

    def format_help(self) -> str:
        """Across the terminal; without, nobody sees how wide a formatter is."""
        self.formatter_class = RawDescriptionHelpFormatter
        return super().format_help()

    def keywords(self, words: Sequence[str]) -> dict[str, Any]:
        """What to call the verb with. What stands behind `--` is `command`, where the verb has one
        and does not take all that follows anyway. Exits 2 with one line.
        """
        split = len(words)
        if "--" in words and any(each.nargs == ZERO_OR_MORE for each in self._actions):
            split = words.index("--")
        known, unknown = self.parse_known_args(list(words[:split]))
        if unknown:
            self._unknown(unknown[0])
        given = vars(known)
        return given if split == len(words) else {**given, "command": list(words[split + 1 :])}

    def error(self, message: str) -> NoReturn:
        """Say what is wrong; exit 2."""
        sys.exit(report(f"{self.prog}: {message} (see {self.prog} --help)", USAGE))

    def _check_value(self, action: Action, value: Any) -> None:
        """What is none of the choices is told with the nearest of them, or with all."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        near = _nearest(str(value), known)
        meant = f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}"
        raise ArgumentError(action, f"{str(value)!r} is not known here; {meant}")

    def _unknown(self, word: str) -> NoReturn:
        if word.partition("=")[0] in NOT_YET:
            self.error(f"{word}: not yet")
        options = [name for action in self._actions for name in action.option_strings]
        near = _nearest(word.partition("=")[0], options)
        what = "option" if word.startswith("-") else "argument"
        self.error(f"unknown {what} {word}" + (f"; did you mean {near[0]}?" if near else ""))


def add_connection(parser: ArgumentParser) -> None:
    """Which gateway, as whom, in which project."""
    group = parser.add_argument_group("which platform")
    group.add_argument(
        "--url", default="", help="the gateway; else HEADRACE_URL or the config file"
    )
    group.add_argument("--token", default="", help="else HEADRACE_TOKEN or the config file")
    group.add_argument(
        "-p", "--project", default="", help="else HEADRACE_PROJECT or the config file"
    )


def add_output(parser: ArgumentParser) -> None:
    """How a reading command shows what it read."""
    parser.add_argument(
        "-o", "--output", choices=FORMATS, default="table", help="how it is shown (table)"
    )


def add_watch(parser: ArgumentParser) -> None:
    """Whether it is shown again and again; the verb itself is not told."""
    parser.add_argument("--watch", action="store_true", help="show it anew until interrupted")


def duration_us(text: str) -> int:
    """`90s`, `15m`, `8h`, `3d` in microseconds."""
    found = _DURATION.match(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no duration; 90s, 15m, 8h and 3d are")
    return int(float(found[1]) * _UNIT_US[found[2]])


def _narrow(prog: str) -> RawDescriptionHelpFormatter:
    """One is made for every option that is added, and by default looks how wide the terminal is."""
    return RawDescriptionHelpFormatter(prog, width=0)


def _nearest(word: str, known: Sequence[str]) -> list[str]:
    """What was meant, if anything is near."""
    import difflib  # seldom needed

    return difflib.get_close_matches(word, known, n=1)
