"""`rebuild`: what people ask about, folded from the log again."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.arguments import add_connection, add_output
from headrace.cli.exits import DONE, FAILED
from headrace.cli.output import seconds, show
from headrace.client.client import Client


def rebuild_options(parser: ArgumentParser) -> None:
    """The arguments of `rebuild`."""
    add_connection(parser)
    add_output(parser)


def rebuild(*, url: str, token: str, project: str, output: str) -> int:
    """Rebuild it; 1 when it had not been what the log comes to."""
    found = Client.from_config(url=url, token=token, project=project).rebuild()
    if output in ("json", "yaml"):
        show(found, output)
    else:
        told = f"differed in {', '.join(found.differs)}" if found.differs else "it was the same"
        print(f"rebuilt 1 .. {found.position}: {told}  ({seconds(found.took_us)})")
    return FAILED if found.differs else DONE
