"""`usage`: who used how much, and what it cost."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Sequence

from headrace.cli.arguments import add_connection, add_output, add_watch, duration_us
from headrace.cli.exits import DONE
from headrace.cli.output import show, table
from headrace.client.client import Client
from headrace.client.usage_model import UsageRow

HOUR_US = 3_600_000_000
MICRO = 1_000_000
MONTH = "30d"


def usage_options(parser: ArgumentParser) -> None:
    """The arguments of `usage`."""
    parser.add_argument(
        "--by", default="project", help="any of day,project,user,model,pool (project)"
    )
    parser.add_argument("--user", default="", help="only this user's")
    parser.add_argument(
        "--since", type=duration_us, default=MONTH, help=f"so far back, in whole days ({MONTH})"
    )
    add_connection(parser)
    add_output(parser)
    add_watch(parser)


def usage(
    *, by: str, user: str, since: int, url: str, token: str, project: str, output: str
) -> int:
    """List GPU hours and their cost. What jobs hold now is counted up to now."""
    since_us = time.time_ns() // 1000 - since
    client = Client.from_config(url=url, token=token)
    rows = client.usage(by=by, project=project, user=user, since_us=since_us)
    if output in ("json", "yaml"):
        show(rows, output)
        return DONE
    names = [name for name in ("day", "project", "user", "model", "pool") if name in by.split(",")]
    header = (*(name.upper() for name in names), "GPU HOURS", "COST")
    table(header, [_cells(row, names) for row in rows], wide=output == "wide")
    return DONE


def _cells(row: UsageRow, names: Sequence[str]) -> list[str]:
    cost = f"{row.cost_micro / MICRO:.2f} {row.currency}" if row.currency else "–"
    return [*(getattr(row, name) or "–" for name in names), f"{row.gpu_us / HOUR_US:.2f}", cost]
