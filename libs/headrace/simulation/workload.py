"""What people ask for in a simulated history: a fleet, its queues, jobs, and changes of mind.

Rule: every job ends by itself, within seconds but for the one that is there for its lease, so that
a history in which faults heal must end.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

NODES_MAX = 4
GPUS_MAX = 4  # per node: small fleets make queues
JOBS_MIN, JOBS_MAX = 6, 30
RUN_S_MAX = 4.0
PAUSED = 0.3  # of the jobs, and resumed
LEASED_RUN_S = 100.0  # of a job that runs when a lease ends
PROJECTS = ("vision", "ads")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request: when, and through which door. `after` is the key of a request to be answered
    first; to cancel, pause or resume means the job of that one.
    """

    at_s: float
    verb: str
    project: str
    key: str
    body: dict[str, Any]
    is_posted: bool = False
    after: str = ""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """All of a history's requests, in order of time, and its nodes with their numbers of GPUs."""

    nodes: dict[str, int]
    asked: tuple[Asked, ...]


def draw(chance: random.Random, until_s: float) -> Workload:
    """A workload whose requests come before `until_s`."""
    nodes = {f"n{i + 1}": chance.randint(1, GPUS_MAX) for i in range(chance.randint(1, NODES_MAX))}
    asked = list(_queues(chance, sum(nodes.values())))
    for number in range(int(chance.triangular(JOBS_MIN, JOBS_MAX, JOBS_MIN))):
        at_s = chance.uniform(1.0, until_s)
        submitted = _job(chance, number, at_s)
        asked.append(submitted)
        if chance.random() < 0.15:
            asked.append(_about(chance, submitted, "cancel"))
        if chance.random() < PAUSED:
            asked.append(paused := _about(chance, submitted, "pause"))
            asked.append(_about(chance, paused, "resume"))
    return Workload(nodes=nodes, asked=tuple(sorted(asked, key=lambda a: (a.at_s, a.key))))


def _queues(chance: random.Random, gpus: int) -> list[Asked]:
    documents: list[dict[str, Any]] = [
        {"type": "department", "name": "research", "gpus": {"quota": gpus}}
    ]
    for name in PROJECTS:
        share: dict[str, Any] = {"quota": chance.randint(0, gpus // 2)}
        if chance.random() < 0.3:
            share["limit"] = chance.randint(max(1, share["quota"]), gpus)
        share["over_quota_weight"] = chance.randint(1, 3)
        document = {"type": "project", "name": name, "department": "research", "gpus": share}
        documents.append(document)
    return [
        Asked(
            at_s=0.0,
            verb="queue.apply",
            project="fleet",
            key=f"q{i}",
            body=document,
            after=f"q{i - 1}" if i else "",
        )
        for i, document in enumerate(documents)
    ]


def _job(chance: random.Random, number: int, at_s: float) -> Asked:
    gpus = chance.choice([0.25, 0.5, 0.5, 1, 1, 1, 2])
    nodes = chance.choice([1, 1, 1, 1, 2, 3]) if gpus >= 0.5 else 1
    ends_in_s = chance.uniform(0.05, RUN_S_MAX)
    code = chance.choice([0, 0, 0, 0, 0, 3])
    body: dict[str, Any] = {
        "name": f"job-{number}",
        "command": ["simulated", f"{ends_in_s:.3f}", str(code)],
        "nodes": nodes,
        "resources": {"gpus": gpus},
        "priority": chance.choice(["low", "medium", "medium", "high"]),
    }
    if chance.random() < 0.15:
        body["preemptibility"] = "non-preemptible"
    if chance.random() < 0.1:
        body["max_duration"] = "2s"
    if chance.random() < 0.2:
        body["checkpoint"] = {"signal": "USR1", "grace": "5s"}
    if chance.random() < 0.2:
        body["on_disconnect"] = {"replace_after": "60s"}
    if chance.random() < 0.1:
        body["nodes"] = 1
        body["sweep"] = {
            "method": "grid",
            "params": {"lr": ["0.1", "0.2", "0.3"], "depth": ["2", "4"][: chance.randint(1, 2)]},
            "parallel": 2,
        }
        body["command"][1] = f"{min(ends_in_s, 1.5):.3f}"
    return Asked(
        at_s=at_s,
        verb="job.submit",
        project=chance.choice(PROJECTS),
        key=f"j{number}",
        body=body,
        is_posted=chance.random() < 0.2,
    )


def leased() -> Asked:
    """A job that runs for longer than its lease, for a history in which one ends."""
    body = {
        "name": "leased",
        "command": ["simulated", f"{LEASED_RUN_S}", "0"],
        "resources": {"gpus": 1},
        "priority": "very-high",
        "on_disconnect": {"replace_after": "60s"},
    }
    return Asked(at_s=1.0, verb="job.submit", project=PROJECTS[0], key="leased", body=body)


def _about(chance: random.Random, earlier: Asked, what: str) -> Asked:
    """A change of mind about the job of an earlier request."""
    return Asked(
        at_s=earlier.at_s + chance.uniform(0.0, 4.0),
        verb=f"job.{what}",
        project=earlier.project,
        key=f"{earlier.key}-{what}",
        body={},
        after=earlier.key,
    )
