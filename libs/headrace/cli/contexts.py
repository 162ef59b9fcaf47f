"""`context`: the platforms that this machine knows, and which of them is asked.

Rule: tokens are kept in the file and shown nowhere.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from headrace.cli.arguments import Parser, add_output
from headrace.cli.exits import DONE, FAILED, printable, report
from headrace.client.config import CONTEXT, DEFAULT_PROJECT, config_file, contexts, unknown_context

CONTEXTS = ("", "CONTEXT", "PROJECT", "URL")
WINS = ("HEADRACE_URL", CONTEXT)  # over the file's current context


def context_options(parser: ArgumentParser) -> None:
    """The arguments of `context`: an action, and its own."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=Parser
    )
    add_output(actions.add_parser("list", help="every platform known here, * the one asked"))
    for name, about in (("use", "ask this one from now on"), ("delete", "forget it")):
        action = actions.add_parser(name, help=about, description=f"{about}.")
        action.add_argument("name", metavar="NAME", help="as headrace context list has it")


def context(*, action: str, name: str = "", output: str = "table") -> int:
    """List contexts, choose one, or forget one. `headrace login` and `headrace up` make them."""
    from headrace.embedded import EmbeddedError
    from headrace.embedded.contexts import delete_context, use_context

    current, known = contexts()
    if action == "list":
        return _list(current, known, output)
    if name not in known:
        raise unknown_context(name, known)
    try:
        (use_context if action == "use" else delete_context)(name)
    except EmbeddedError as error:
        return report(f"headrace context: {error}", FAILED)
    if action == "delete":
        print(
            printable(f"context {name} deleted from {config_file()}; its token is still good there")
        )
        return DONE
    print(printable(f"context {name}   {known[name].get('url', '')}"))
    wins = next((variable for variable in WINS if os.environ.get(variable)), "")
    if wins:
        report(f"headrace context: {wins} is set and wins over it", DONE)
    return DONE


def _list(current: str, known: dict[str, dict[str, str]], output: str) -> int:
    from headrace.cli.output import show, table

    rows: list[dict[str, Any]] = [
        {
            "context": name,
            "current": name == current,
            "url": fields.get("url", ""),
            "project": fields.get("project", DEFAULT_PROJECT),
        }
        for name, fields in known.items()
    ]
    if output in ("json", "yaml"):
        show(rows, output)
        return DONE
    cells = [["*" if r["current"] else "", r["context"], r["project"], r["url"]] for r in rows]
    table(CONTEXTS, cells, wide=output == "wide")
    return DONE
