"""`webhook`: who outside is told what happens to a project's jobs."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.actions import add_action, add_actions, show_list
from headrace.cli.arguments import add_output, add_watch
from headrace.cli.exits import DONE, printable
from headrace.client.client import Client

WEBHOOKS = ("WEBHOOK", "PROJECT", "STATE", "TOLD UP TO", "EVENTS", "URL / WHY")


def webhook_options(parser: ArgumentParser) -> None:
    """The arguments of `webhook`: an action, and its own."""
    actions = add_actions(parser)
    shown = add_action(actions, "list", "every webhook, and how far it has come")
    add_output(shown)
    add_watch(shown)
    add_action(actions, "delete", "tell this address no more", "name")


def webhook(
    *, action: str, url: str, token: str, project: str, output: str = "table", name: str = ""
) -> int:
    """List webhooks, or end one. `headrace apply` makes them."""
    client = Client.from_config(url=url, token=token, project=project)
    if action == "delete":
        client.delete("webhook", name, project=client.project)
        print(f"webhook {printable(name)} deleted  project {printable(client.project)}")
        return DONE
    rows = client.webhooks(project)
    cells = [
        [row.name, row.project, row.state or "told", str(row.reached), " ".join(row.events),
         row.why or row.url]
        for row in rows
    ]  # fmt: skip
    return show_list(rows, WEBHOOKS, cells, output)
