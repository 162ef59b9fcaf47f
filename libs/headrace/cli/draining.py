"""`node drain` and `node forget`: taking a machine out with as little loss as there can be."""

from __future__ import annotations

import contextlib
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import NamedTuple

from headrace.cli.arguments import duration_us
from headrace.cli.confirmation import add_yes, is_confirmed
from headrace.cli.exits import DONE, FAILED, TIMED_OUT, printable, report
from headrace.cli.output import duration
from headrace.client.client import Client
from headrace.client.errors import NotFound, Refused
from headrace.client.model import ENDED

READY = "ready"
LOOK_S = 0.5  # between two looks at what still runs there
MOVED_S = 60.0  # beyond the deadline and what jobs have to save themselves
ASKED_ABOUT_MAX = 64  # jobs of the node, one by one
SECOND_US = 1_000_000


def drain_options(parser: ArgumentParser) -> None:
    """The arguments of `node drain` beside the node."""
    parser.add_argument(
        "--deadline",
        type=duration_us,
        default=0,
        metavar="DURATION",
        help="how long its jobs may run on, such as 15m, before they are asked to save themselves"
        " and move (at once)",
    )
    add_yes(parser)


def forget_options(parser: ArgumentParser) -> None:
    """The arguments of `node forget` beside the node."""
    add_yes(parser)


def drain(client: Client, node: str, *, deadline: int, is_sure: bool) -> int:
    """Cordon the node, let its jobs end, ask those that have not by the deadline to move, and wait
    until they have. What that loses is said before.
    """
    prospects = [_prospect(client, job) for job in client.node(node).jobs[:ASKED_ABOUT_MAX]]
    losses = [prospect.loss for prospect in prospects if prospect.loss]
    if not any(row.state == READY for row in client.nodes() if row.node != node):
        losses.append(f"{node} is the only node that takes work: until another does, all jobs wait")
    if not is_confirmed("headrace node drain", losses, is_sure=is_sure):
        return FAILED
    client.change_node(node, "drain", deadline_us=deadline)
    at = f"end within {duration(deadline)} or are" if deadline else "are"
    line = f"{node} takes no new work; its jobs {at} asked to save themselves and move"
    print(printable(line), flush=True)
    grace_us = max((prospect.grace_us for prospect in prospects), default=0)
    until_s = time.monotonic() + (deadline + grace_us) / SECOND_US + MOVED_S
    said: list[str] | None = None
    while jobs := client.node(node).jobs:
        if jobs != said:
            print(printable(f"  {len(jobs)} left: {' '.join(jobs)}"), flush=True)
            said = jobs
        if deadline and time.monotonic() >= until_s:
            line = f"headrace node drain: {len(jobs)} have not moved yet: {' '.join(jobs)}"
            return report(line, TIMED_OUT)
        time.sleep(LOOK_S)
    for line in _lost(client, prospects):
        print(printable(line))
    print(printable(f"{node} is empty (headrace node uncordon {node}, or node delete {node})"))
    return DONE


class _Prospect(NamedTuple):
    """What moving means for a job: how long it may save itself, and what is lost, empty if nothing;
    in which attempt it is.
    """

    job: str = ""
    attempt: int = 0
    grace_us: int = 0
    loss: str = ""


def _prospect(client: Client, name: str) -> _Prospect:
    try:
        found = client.job(name)
    except (NotFound, Refused):  # it has ended, or is nobody's of whom one may know more
        return _Prospect()
    job, checkpoint = found.job, found.spec.get("checkpoint")
    if checkpoint:
        return _Prospect(name, job.attempt, int(checkpoint.get("grace_us", 0)))
    ran = f"{name} has run {duration(job.ran_us)}"
    loss = f"{ran} and saves no checkpoint: moved, it starts anew"
    if job.kind == "workspace":
        loss = f"{ran}: moved, it loses its programs and files beside volumes"
    return _Prospect(name, job.attempt, loss=loss)


def _lost(client: Client, prospects: list[_Prospect]) -> Iterator[str]:
    """Of what might be lost, what was: the work of those who had to move."""
    for job, attempt, _, loss in prospects:
        with contextlib.suppress(NotFound, Refused):
            if loss and client.job(job).job.state not in ENDED:
                yield f"  lost: what {job} did in attempt {attempt}"


def forget(client: Client, node: str, *, is_sure: bool) -> int:
    """Give up a machine that will not come back, and state what ran there."""
    row = client.node(node)
    jobs = " ".join(row.jobs) or "no job"
    losses = [f"gives up {jobs}, and fences {node}: it will not come back"]
    if not is_confirmed("headrace node forget", losses, is_sure=is_sure):
        return FAILED
    client.change_node(node, "forget")
    print(printable(f"{node} forgotten  fenced {row.gpus} GPUs  given up: {jobs}"))
    return DONE
