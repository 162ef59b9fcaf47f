"""`webhook`: who outside is told what happens to a project's jobs."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.arguments import Parser, add_connection, add_output, add_watch
from headrace.cli.exits import DONE, printable
from headrace.cli.output import show, table
from headrace.client.client import Client

WEBHOOKS = ("WEBHOOK", "PROJECT", "STATE", "TOLD UP TO", "EVENTS", "URL / WHY")


def webhook_options(parser: ArgumentParser) -> None:
    """The arguments of `webhook`: an action, and its own."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=Parser
    )
    shown = actions.add_parser("list", help="every webhook, and how far it has come")
    add_connection(shown)
    add_output(shown)
    add_watch(shown)
    deleted = actions.add_parser("delete", help="tell this address no more")
    deleted.add_argument("name", metavar="NAME")
    add_connection(deleted)


def webhook(
    *, action: str, url: str, token: str, project: str, output: str = "table", name: str = ""
) -> int:
    """List webhooks, or end one. `headrace apply` makes them."""
    client = Client.from_config(url=url, token=token, project=project)
    if action == "delete":
        client.delete_webhook(name)
        print(f"webhook {printable(name)} deleted  project {printable(client.project)}")
        return DONE
    rows = client.webhooks(project)
    if output in ("json", "yaml"):
        show(rows, output)
        return DONE
    cells = [
        [row.name, row.project, row.state or "told", str(row.reached), " ".join(row.events),
         row.why or row.url]
        for row in rows
    ]  # fmt: skip
    table(WEBHOOKS, cells, wide=output == "wide")
    return DONE
