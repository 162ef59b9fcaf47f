"""`outputs`: what a job left behind."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from headrace.cli.arguments import add_connection
from headrace.cli.choosing import add_job, check_job, chosen
from headrace.cli.exits import DONE, printable, report
from headrace.client.client import Client
from headrace.client.model import ENDED


def outputs_options(parser: ArgumentParser) -> None:
    """The arguments of `outputs`."""
    add_job(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="where to (a folder named as the job); made if need be",
    )
    add_connection(parser)


def outputs(*, job: str, last: bool, output: str | None, url: str, token: str, project: str) -> int:
    """Fetch them, and say which files there are now. Unless it is said where to, nothing that is here
    already is replaced by a file that a job chose the name of.
    """
    del project  # an id says enough
    check_job("outputs", job, is_last=last)
    client = Client.from_config(url=url, token=token)
    job = chosen(client, job)
    output = job if output is None else output
    folder = Path(output).absolute()
    paths = client.outputs(job, folder) or _of_trials(client, job, folder)
    if not paths:
        return report(f"headrace outputs: nothing is kept of {job}, or not yet", 1)
    for path in paths:
        print(printable(str(Path(output) / path)))
    return DONE


def _of_trials(client: Client, job: str, folder: Path) -> list[str]:
    """Of a sweep or an array what each of its tasks that ended left behind, in a folder of its own by
    its index; the paths, below `folder`.
    """
    row = client.job(job).job
    tasks = client.trials(row.job).trials if row.tasks else []
    found: list[str] = []
    for each in tasks:
        index = each.trial.rpartition("/")[2]
        if each.state in ENDED:
            left = client.outputs(each.trial, folder / index)
            found += [str(Path(index) / path) for path in left]
    return found
