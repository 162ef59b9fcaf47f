"""Which job a verb is about: the one that is named, or with `--last` the latest of one's own.

Rule: what a name means is the gateway's to say; a person at a terminal is told which job it was where
the verb itself does not show it.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from headrace.cli.exits import USAGE, report
from headrace.client.client import Client
from headrace.client.errors import NotFound
from headrace.client.model import JobRow

HELP = "an id, a name (of several the live or newest), the beginning of an id, or SWEEP/TRIAL"


def add_job(parser: ArgumentParser) -> None:
    """JOB, or `--last`."""
    parser.add_argument("job", metavar="JOB", nargs="?", default="", help=HELP)
    parser.add_argument("--last", action="store_true", help="the job that you submitted last")


def check_job(verb: str, job: str, *, is_last: bool) -> None:
    """End the program with one line unless either a job or `--last` was typed."""
    if bool(job) == is_last:
        line = "name a job or say --last, not both" if job else "which job? (JOB, or --last)"
        sys.exit(report(f"headrace {verb}: {line} (see headrace {verb} --help)", USAGE))


def chosen(client: Client, job: str) -> str:
    """The job that was named, or one's own latest. Raises `NotFound`."""
    return job or last_of(client).job


def last_of(client: Client) -> JobRow:
    """The latest job that the asker submitted. Raises `NotFound`."""
    user = client.whoami().user
    rows = client.jobs(user=user, sort="-position", limit=1, ended=1_000).jobs
    if not rows:
        raise NotFound(f"{user} has submitted no job that is listed (headrace ps --all)")
    return rows[0]


def say_which(named: str, row: JobRow) -> None:
    """Say at a terminal which job was meant by what is not its id."""
    if named != row.job and sys.stderr.isatty():
        report(f"{row.job}  {row.state}", 0)
