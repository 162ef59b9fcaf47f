"""`get`: what an administrator applied, as it was applied."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.arguments import add_connection
from headrace.cli.deleting import KINDS as DELETED
from headrace.cli.deleting import NODE, OF_PROJECTS, SCHEDULING
from headrace.cli.exits import DONE, USAGE, report
from headrace.cli.output import show
from headrace.client.client import Client

KINDS = tuple(kind for kind in DELETED if kind != NODE)


def get_options(parser: ArgumentParser) -> None:
    """The arguments of `get`."""
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="none for scheduling")
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="as what (yaml)"
    )
    add_connection(parser)


def get(*, kind: str, name: str, output: str, url: str, token: str, project: str) -> int:
    """Show the document that is in force; `headrace apply` takes it as it is."""
    if bool(name) is (kind == SCHEDULING):
        which = f"which {kind}? (headrace get {kind} NAME)"
        return report(f"headrace get: {'it has no name' if name else which}", USAGE)
    client = Client.from_config(url=url, token=token, project=project)
    of = client.project if kind == "webhook" else project if kind in OF_PROJECTS else ""
    show(client.document(kind, name, project=of), output)
    return DONE
