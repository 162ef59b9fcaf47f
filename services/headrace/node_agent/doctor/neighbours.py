"""Agents of other platforms on this machine, whose jobs have the same accounts as ours.

Rule: placement counts the accounts of each platform from the same number on, and no platform knows of
another. What is a neighbour is read from the processes that run: an agent that does not run starts no job.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.doctor import Check, named, ok, warning
from headrace.node_agent.isolation.accounts import COUNT, FIRST
from headrace.node_agent.membership import GRANT

PROGRAM = [b"-m", b"headrace.node_agent"]  # what an agent's command line ends with
KEY_BYTES_MAX = 4_096


class Neighbour(NamedTuple):
    """An agent: its folder, the first account of its jobs, and whose grants it believes ("": not known)."""

    node_dir: str
    first: int
    platform: str


def agents(proc: Path = Path("/proc")) -> Iterator[Neighbour]:
    """The agents that run on this machine, as far as this process may look."""
    for process in proc.glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().split(b"\0")[-3:-1] != PROGRAM:
                continue
            words = os.fsdecode((process / "environ").read_bytes()).split("\0")
        except OSError:
            continue  # it has ended, or is not ours to look at
        env = dict(word.partition("=")[::2] for word in words)
        if node_dir := env.get("HEADRACE_NODE_DIR", ""):
            folders = (node_dir, env.get("HEADRACE_KEYS_DIR", env.get("HEADRACE_RUN_DIR", "")))
            first = env.get("HEADRACE_NODE_ACCOUNTS", "")
            number = int(first) if first.isdecimal() else FIRST
            yield Neighbour(node_dir, number, platform_of(folders))


def platform_of(folders: Iterable[str]) -> str:
    """Which platform's grants an agent believes that looks for its key in these."""
    for folder in filter(None, folders):
        try:
            with open(f"{folder}/{GRANT}", "rb") as file:
                return hashlib.sha256(file.read(KEY_BYTES_MAX)).hexdigest()
        except OSError:
            continue
    return ""


def check_neighbours(own: Neighbour, others: Iterable[Neighbour]) -> Check:
    """Whether a job of another platform has the account of one of ours."""
    same = [
        other.node_dir
        for other in others
        if other.node_dir != own.node_dir
        and (other.platform != own.platform or not own.platform)
        and abs(other.first - own.first) < COUNT
    ]
    if same:
        found = f"jobs of another platform have the same accounts here: {named(sorted(same))}"
        fix = f"HEADRACE_NODE_ACCOUNTS={own.first - COUNT} on every node of one of the two, before it runs jobs"
        return warning("neighbours", found, fix)
    return ok("neighbours", "no other platform's jobs have the accounts of this one's")
