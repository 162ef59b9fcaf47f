"""`cancel`, `pause` and `resume`: one thing asked of several jobs."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial

from headrace.cli.arguments import add_connection
from headrace.cli.choosing import HELP
from headrace.cli.confirmation import add_yes, counted, is_confirmed, named
from headrace.cli.exits import DONE, FAILED, REFUSED, USAGE, printable, report
from headrace.client.client import Client
from headrace.client.errors import NotFound, Refused
from headrace.client.model import LIVE, MAX_PAGE, Answer

WHICH = "headrace cancel JOB …, or --state, --mine, -p PROJECT"
LOOK_S = 0.3  # between two looks whether a job has left its GPUs
LEFT_S_MAX = 180.0  # longer than a job is given to leave


def cancel_options(parser: ArgumentParser) -> None:
    """The arguments of `cancel`."""
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=HELP)
    chosen = parser.add_argument_group(
        "instead of JOB, all live ones that fit (with -p, of a project)"
    )
    chosen.add_argument("--state", choices=LIVE, metavar="STATE", help=", ".join(LIVE))
    chosen.add_argument("--mine", action="store_true", help="that you submitted")
    parser.add_argument("--now", action="store_true", help="end it without asking it first")
    add_connection(parser)
    add_yes(parser)


def resume_options(parser: ArgumentParser) -> None:
    """The arguments of `resume`."""
    parser.add_argument("jobs", nargs="+", metavar="JOB", help=HELP)
    add_connection(parser)


def pause_options(parser: ArgumentParser) -> None:
    """The arguments of `pause`."""
    resume_options(parser)
    parser.add_argument(
        "-d", "--detach", action="store_true", help="do not wait until they have left their GPUs"
    )


def cancel(
    *,
    jobs: list[str],
    state: str | None,
    mine: bool,
    now: bool,
    yes: bool,
    url: str,
    token: str,
    project: str,
) -> int:
    """End jobs. Their workers are asked to stop first, and get the job's grace. A workspace's files
    are somebody's work that no other run makes again: it is asked about them, and about jobs that
    were not named one by one.
    """
    is_chosen = bool(state or mine or project)
    if not jobs and not is_chosen:
        return report(f"headrace cancel: which jobs? ({WHICH})", USAGE)
    if jobs and (state or mine):
        return report(f"headrace cancel: name jobs, or say which, not both ({WHICH})", USAGE)
    client = Client.from_config(url=url, token=token)
    losses: list[str] = []
    if not jobs:
        jobs = _fitting(client, project=project, state=state or "live", mine=mine)
        losses = [f"ends {counted(len(jobs), 'job')}: {named(jobs)}"] if jobs else []
        if not jobs:
            return report("headrace cancel: no live job fits", DONE)
    losses += [] if yes else [loss for job in jobs if (loss := _loss(client, job))]
    if not is_confirmed("headrace cancel", losses, is_sure=yes):
        return FAILED
    ask = partial(client.cancel, now=now)
    return _each(jobs, "cancel", ask, lambda job: f"{job}  cancelling")


def pause(*, jobs: list[str], detach: bool, url: str, token: str, project: str) -> int:
    """Have jobs leave their GPUs, and say which way each took and what it lost."""
    del project  # an id says enough
    client = Client.from_config(url=url, token=token)
    asked: list[str] = []

    def heard(job: str) -> str:
        asked.append(job)
        return f"{job}  pausing"

    code = _each(jobs, "pause", client.pause, heard)
    for job in () if detach else asked:
        print(f"{printable(job)}  {_left(client, job)}", flush=True)
    return code


def resume(*, jobs: list[str], url: str, token: str, project: str) -> int:
    """Let paused jobs compete for GPUs again."""
    del project  # an id says enough
    client = Client.from_config(url=url, token=token)
    return _each(jobs, "resume", client.resume, lambda job: f"{job}  resuming")


def _fitting(client: Client, *, project: str, state: str, mine: bool) -> list[str]:
    """The ids of all live jobs that fit."""
    user = client.whoami().user if mine else ""
    found: list[str] = []
    cursor = ""
    while True:
        page = client.jobs(
            project=project, user=user, state=state, sort="position", limit=MAX_PAGE, cursor=cursor
        )
        found += [row.job for row in page.jobs]
        cursor = page.next
        if not cursor:
            return found


def _loss(client: Client, job: str) -> str:
    """What goes with a workspace that has not ended; empty for whatever else."""
    try:
        row = client.job(job).job
    except (NotFound, Refused):
        return ""
    if row.kind != "workspace" or row.ended_at_us:
        return ""
    return (
        f"ends {row.job}: what is in its folder is kept until its project needs the room (headrace"
        f" outputs {row.job}), nothing else of it but what is on volumes"
    )


def _left(client: Client, job: str) -> str:
    """How it left its GPUs, once it has; whatever else became of it meanwhile."""
    until_s = time.monotonic() + LEFT_S_MAX
    while True:
        row = client.job(job).job
        if row.state == "paused" or row.ended_at_us:
            return printable(row.why or row.state)
        if time.monotonic() > until_s:
            return f"has not left its GPUs yet; headrace describe {job} will say how it did"
        time.sleep(LOOK_S)


def _each(
    jobs: list[str], verb: str, ask: Callable[[str], Answer], done: Callable[[str], str]
) -> int:
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
            print(printable(done(answer.job or job)), flush=True)
    return code
