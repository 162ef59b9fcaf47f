"""`delete`: what an administrator applied, and nodes."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser
from collections.abc import Callable

from headrace.cli.arguments import add_connection
from headrace.cli.confirmation import add_yes, counted, is_confirmed, named
from headrace.cli.exits import DONE, FAILED, USAGE, printable, report
from headrace.cli.output import show
from headrace.client.client import Client
from headrace.client.errors import NotFound, Refused

NODE, PROJECT, SCHEDULING = "node", "project", "scheduling"
OF_PROJECTS = ("template", "webhook")
KINDS = ("department", PROJECT, "pool", "volume", *OF_PROJECTS, SCHEDULING, NODE)
STAYS = {  # what is said besides
    PROJECT: "its history and usage stay; made anew it has no roles, secrets, publishers or webhooks",
    "volume": "the folder itself is left alone",
    "template": "jobs that came of it are as they were",
    SCHEDULING: "turns are taken as the platform has it",
}


def delete_options(parser: ArgumentParser) -> None:
    """The arguments of `delete`."""
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="none for scheduling")
    parser.add_argument(
        "-o", "--output", choices=("table", "json", "yaml"), default="table",
        help="how what stands in the way is shown (table)",
    )  # fmt: skip
    add_yes(parser)
    add_connection(parser)


def delete(
    *, kind: str, name: str, output: str, yes: bool, url: str, token: str, project: str
) -> int:
    """Delete it. What is in use is refused, with what stands in the way."""
    if bool(name) is (kind == SCHEDULING):
        which = f"which {kind}? (headrace delete {kind} NAME)"
        return report(f"headrace delete: {'it has no name' if name else which}", USAGE)
    client = Client.from_config(url=url, token=token, project=project)
    losses = _dropped(client, name) if kind == PROJECT else []
    if not is_confirmed("headrace delete", losses, is_sure=yes):
        return FAILED
    if kind == NODE:
        answer = client.change_node(name, "delete")
    else:
        of = client.project if kind == "webhook" else project if kind in OF_PROJECTS else ""
        answer = client.delete(kind, name, project=of)
    if output != "table":
        show(answer, output)
        return DONE
    stays = f"  {STAYS[kind]}" if kind in STAYS else ""
    print(printable(" ".join(filter(None, (kind, name, "deleted"))) + stays))
    return DONE


def _dropped(client: Client, project: str) -> list[str]:
    """What is deleted with the project, for ever; what of it may not be seen is not counted."""
    held: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("secret", lambda: [row.name for row in client.secrets(project)]),
        ("publisher", lambda: [row.name for row in client.publishers(project)]),
        ("webhook", lambda: [row.name for row in client.webhooks(project)]),
        ("template", lambda: [row.name for row in client.templates(project)]),
        ("role", lambda: [row.member for row in client.roles(scope=project)]),
    )
    lines = []
    for what, names_of in held:
        with contextlib.suppress(Refused, NotFound):
            if names := names_of():
                lines.append(f"  {counted(len(names), what)}: {named(names)}")
    return [f"deletes project {project} with", *lines] if lines else [f"deletes project {project}"]
