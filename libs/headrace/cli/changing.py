"""`cancel`, `pause` and `resume`: one thing asked of several jobs."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable

from headrace.cli.arguments import add_connection
from headrace.cli.exits import DONE, REFUSED, printable, report
from headrace.client.client import Client
from headrace.client.connection import NotFound, Refused
from headrace.client.model import Answer


def cancel_options(parser: ArgumentParser) -> None:
    """The arguments of `cancel`."""
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="ids, or unambiguous prefixes")
    add_connection(parser)


pause_options = resume_options = cancel_options


def cancel(*, jobs: list[str], url: str, token: str, project: str) -> int:
    """End jobs. Their workers are asked to stop first, and get the job's grace."""
    del project  # an id says enough
    client = Client.from_config(url=url, token=token)
    return _each(jobs, "cancel", "cancelling", client.cancel)


def pause(*, jobs: list[str], url: str, token: str, project: str) -> int:
    """Have jobs leave their GPUs. `ps` and `describe` say which way was taken and what was lost."""
    del project  # an id says enough
    client = Client.from_config(url=url, token=token)
    return _each(jobs, "pause", "pausing", client.pause)


def resume(*, jobs: list[str], url: str, token: str, project: str) -> int:
    """Let paused jobs compete for GPUs again."""
    del project  # an id says enough
    client = Client.from_config(url=url, token=token)
    return _each(jobs, "resume", "resuming", client.resume)


def _each(jobs: list[str], verb: str, done: str, ask: Callable[[str], Answer]) -> int:
    """Ask it of each, and go on after one that cannot; the exit code of the last that could not."""
    code = DONE
    for job in jobs:
        try:
            answer = ask(job)
        except Refused as refused:
            code = report(str(refused), REFUSED)
        except NotFound as missing:
            code = report(f"headrace {verb}: {missing}", 1)
        else:
            print(f"{printable(answer.job or job)}  {done}")
    return code
