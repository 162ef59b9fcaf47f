"""`why`: what keeps a job waiting, and what would let it start.

Rule: nothing is worked out here; the answer is placement's own, as it stands now.
"""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.arguments import add_connection, add_output, add_watch
from headrace.cli.choosing import add_job, check_job, chosen
from headrace.cli.exits import DONE, printable
from headrace.cli.output import clock, duration, show
from headrace.client.client import Client
from headrace.scheduling.explanation import Explanation


def why_options(parser: ArgumentParser) -> None:
    """The arguments of `why`."""
    add_job(parser)
    add_connection(parser)
    add_output(parser)
    parser.add_argument(
        "-v", "--verbose", dest="output", action="store_const", const="wide", help="as -o wide"
    )
    add_watch(parser)


def why(*, job: str, last: bool, url: str, token: str, project: str, output: str) -> int:
    """Say why one job is where it is."""
    del project
    check_job("why", job, is_last=last)
    client = Client.from_config(url=url, token=token)
    found = client.why(chosen(client, job))
    if output in {"json", "yaml"}:
        show(found, output)
        return DONE
    for line in lines_of(found, wide=output == "wide"):
        print(printable(line).rstrip())
    return DONE


def lines_of(found: Explanation, *, wide: bool = False) -> list[str]:
    """What a person reads; `wide` adds the rule and its numbers."""
    waited_us = found.numbers.get("waited_us", 0)
    state = "running" if found.rule == "running" else f"waiting {duration(waited_us)}"
    if not found.numbers:
        state = found.rule
    excluded = ", ".join(f"{count} {reason}" for reason, count in found.excluded.items())
    parts = {
        "now": found.text,
        "next": f"starts by {clock(found.starts_by_us)}" if found.starts_by_us else "",
        "nodes": excluded,
        "quota": found.quota,
        "evicts": found.evicts,
        "budget": _budget(found),
        "sooner": f"{found.sooner} would start now" if found.sooner else "",
        "from": f"position {found.position:,}, {clock(found.at_us)}".replace(",", " ", 1),
    }
    if wide:
        parts["rule"] = found.rule
        parts["numbers"] = "  ".join(f"{name}={n}" for name, n in found.numbers.items())
    head = f"{found.job}  {state}   project {found.project}"
    return [head, *(f"  {name:<7} {text}" for name, text in parts.items() if text)]


def _budget(found: Explanation) -> str:
    """`research may lose no more than 20 jobs per 1h; the next at 14:32`."""
    if "budget" not in found.names:
        return ""
    most, per_us = found.numbers["evictions_max"], found.numbers["evictions_per_us"]
    jobs = f"{most} job{'s' if most > 1 else ''} per {duration(per_us)}"
    free_at = clock(found.numbers["evictions_free_at_us"])
    return f"{found.names['budget']} may lose no more than {jobs}; the next at {free_at}"
