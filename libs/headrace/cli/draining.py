"""`node drain` and `node forget`: taking a machine out with as little loss as there can be."""

from __future__ import annotations

import time
from argparse import ArgumentParser

from headrace.cli.arguments import duration_us
from headrace.cli.exits import DONE, FAILED, TIMED_OUT, printable, report
from headrace.client.client import Client

LOOK_S = 0.5  # between two looks at what still runs there
SECOND_US = 1_000_000


def drain_options(parser: ArgumentParser) -> None:
    """The arguments of `node drain` beside the node."""
    parser.add_argument(
        "--deadline",
        type=duration_us,
        default=0,
        metavar="DURATION",
        help="how long to wait for its jobs, such as 15m (until they have gone)",
    )


def forget_options(parser: ArgumentParser) -> None:
    """The arguments of `node forget` beside the node."""
    parser.add_argument("--yes", action="store_true", help="do it; without, say what is given up")


def drain(client: Client, node: str, *, deadline: int) -> int:
    """Cordon the node, ask its jobs to move, and wait until they have."""
    client.change_node(node, "drain")
    print(printable(f"{node} takes no new work; its jobs are asked to move"), flush=True)
    until_s = time.monotonic() + deadline / SECOND_US
    said: list[str] | None = None
    while jobs := client.node(node).jobs:
        if jobs != said:
            print(printable(f"  {len(jobs)} left: {' '.join(jobs)}"), flush=True)
            said = jobs
        if deadline and time.monotonic() >= until_s:
            line = f"headrace node drain: {len(jobs)} still run at the deadline: {' '.join(jobs)}"
            return report(line, TIMED_OUT)
        time.sleep(LOOK_S)
    print(printable(f"{node} is empty (headrace node uncordon {node}, or node delete {node})"))
    return DONE


def forget(client: Client, node: str, *, is_sure: bool) -> int:
    """Give up a machine that will not come back, and state what ran there."""
    row = client.node(node)
    jobs = " ".join(row.jobs) or "no job"
    if not is_sure:
        line = f"headrace node forget: gives up {jobs}, and fences {node}; say --yes to do it"
        return report(line, FAILED)
    client.change_node(node, "forget")
    print(printable(f"{node} forgotten  fenced {row.gpus} GPUs  given up: {jobs}"))
    return DONE
