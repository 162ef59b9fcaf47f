"""`delete`: what an administrator applied, and nodes."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.arguments import add_connection
from headrace.cli.exits import DONE, USAGE, printable, report
from headrace.cli.output import show
from headrace.client.client import Client

NODE, SCHEDULING = "node", "scheduling"
OF_PROJECTS = ("template", "webhook")
KINDS = ("department", "project", "pool", "volume", *OF_PROJECTS, SCHEDULING, NODE)
STAYS = {  # what is said besides
    "project": "its history and usage stay; made anew it has no roles, secrets, publishers or webhooks",
    "volume": "the folder itself is left alone",
    "template": "jobs that came of it are as they were",
    SCHEDULING: "turns are taken as the platform has it",
}


def delete_options(parser: ArgumentParser) -> None:
    """The arguments of `delete`."""
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="none for scheduling")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    add_connection(parser)


def delete(*, kind: str, name: str, output: str, url: str, token: str, project: str) -> int:
    """Delete it. What is in use is refused, with what stands in the way."""
    if bool(name) is (kind == SCHEDULING):
        which = f"which {kind}? (headrace delete {kind} NAME)"
        return report(f"headrace delete: {'it has no name' if name else which}", USAGE)
    client = Client.from_config(url=url, token=token, project=project)
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
