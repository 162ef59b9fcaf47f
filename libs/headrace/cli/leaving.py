"""`outputs`: what a job left behind."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from headrace.cli.arguments import add_connection
from headrace.cli.choosing import add_job, check_job, chosen
from headrace.cli.exits import DONE, printable, report
from headrace.client.client import Client


def outputs_options(parser: ArgumentParser) -> None:
    """The arguments of `outputs`."""
    add_job(parser)
    parser.add_argument(
        "-o", "--output", default=".", metavar="DIR", help="where to (.); made if it is not there"
    )
    add_connection(parser)


def outputs(*, job: str, last: bool, output: str, url: str, token: str, project: str) -> int:
    """Fetch them, and say which files there are now."""
    del project  # an id says enough
    check_job("outputs", job, is_last=last)
    client = Client.from_config(url=url, token=token)
    job = chosen(client, job)
    paths = client.outputs(job, Path(output).absolute())
    if not paths:
        return report(f"headrace outputs: nothing is kept of {job}, or not yet", 1)
    for path in paths:
        print(printable(str(Path(output) / path)))
    return DONE
