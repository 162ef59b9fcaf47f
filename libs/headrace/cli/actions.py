"""Verbs that are nouns: `headrace node list`, `headrace token create`."""

from __future__ import annotations

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Sequence
from typing import Any

from headrace.cli.arguments import Parser, add_connection
from headrace.cli.exits import DONE
from headrace.cli.output import show, table

Actions = _SubParsersAction

WORDS = {
    "id": "the beginning of its id, as it is listed",
    "member": "user:ada, group:vision-team or service:vision/airflow",
    "name": "its name",
    "node": "the node's name",
    "role": "such as viewer or researcher; one that is none is answered with all",
    "template": "the template's name",
}


def add_actions(parser: ArgumentParser) -> Actions[Parser]:
    """Where the noun's actions are added; one of them must be typed."""
    return parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=Parser
    )


def add_action(actions: Actions[Parser], name: str, about: str, *words: str) -> Parser:
    """One more, with these words behind it, at a platform."""
    made = actions.add_parser(name, help=about, description=f"{about}.", allow_abbrev=False)
    for word in words:
        made.add_argument(word, metavar=word.upper(), help=WORDS[word])
    add_connection(made)
    return made


def show_list(rows: Any, head: Sequence[str], cells: Sequence[Sequence[str]], output: str) -> int:
    """Print a list as it is wanted: `rows`, or their `cells` in a table. The exit code."""
    if output in ("json", "yaml"):
        show(rows, output)
    else:
        table(head, cells, wide=output == "wide")
    return DONE
