"""What people ask for in a simulated history: jobs of every kind, and changes of mind.

Rule: every job ends by itself, within seconds but for the one that is there for its lease, so that
a history in which faults heal must end. A kind of job is one function, which says what is special
about it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import msgspec

from headrace.simulation import administration
from headrace.simulation.administration import (
    LEVELS,
    POOL,
    PROFILE,
    PROJECTS,
    Fleet,
    Hardware,
)
from headrace.simulation.asking import Asked, Body, end_of, followers

JOBS_MIN, JOBS_MAX = 6, 16
RUN_S_MAX = 4.0
PAUSED, PAUSED_FIRST = 0.5, 0.9  # of the jobs, and of those that come early; and resumed
MIND_S_MAX, MIND_FIRST_S_MAX = (
    4.0,
    1.5,
)  # until somebody changes their mind: of what runs at once soon
ELASTIC_FIRST = 2  # jobs of every history that come early and take all there is
LEASED_RUN_S = 100.0  # of a job that runs when a lease ends
USERS = ("ada", "ben", "eve")
SETTINGS = {  # recorded with who leads: small, so that histories of seconds see what takes minutes
    "consolidate_after_s": 1,
    "reserve_after_s": 1,
    "resume_elsewhere_after_s": 3,
    "release_s": 1,
}
APPLIED = {"pool": "pool.apply", "scheduling": "scheduling.apply"}


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """All of a history's requests, in order of time, and its nodes."""

    nodes: dict[str, Hardware]
    asked: tuple[Asked, ...]


def draw(chance: random.Random, until_s: float) -> Workload:
    """A workload whose requests come before `until_s`."""
    fleet = administration.draw(chance, until_s)
    asked, followed = _applied(fleet), list[tuple[Asked, str]]()
    for number in range(int(chance.triangular(JOBS_MIN, JOBS_MAX, JOBS_MIN))):
        at_s = chance.uniform(1.0, until_s if number >= ELASTIC_FIRST else until_s / 2)
        submitted = _job(chance, fleet, number, at_s)
        asked.append(submitted)
        followed.append((submitted, end_of(submitted)))
        if chance.random() < 0.15:
            asked.append(_about(chance, submitted, "cancel"))
            followed[-1] = (submitted, "finished")
        is_first = number < ELASTIC_FIRST
        if chance.random() < (PAUSED_FIRST if is_first else PAUSED):
            within_s = MIND_FIRST_S_MAX if is_first else MIND_S_MAX
            asked.append(paused := _about(chance, submitted, "pause", within_s))
            asked.append(_about(chance, paused, "resume", within_s))
    asked += followers(chance, followed, partial(_job, chance, fleet))
    return Workload(nodes=fleet.nodes, asked=tuple(sorted(asked, key=lambda a: (a.at_s, a.key))))


def _applied(fleet: Fleet) -> list[Asked]:
    """The administrators' documents, one after the other."""
    return [
        Asked(
            at_s=at_s,
            verb=APPLIED.get(document["type"], "queue.apply"),
            project="fleet",
            key=f"d{i}",
            body=document,
            after=f"d{i - 1}" if i else "",
            user="root",
        )
        for i, (at_s, document) in enumerate(fleet.applied)
    ]


def _job(chance: random.Random, fleet: Fleet, number: int, at_s: float) -> Asked:
    body: Body = {
        "name": f"job-{number}",
        "command": ["simulated", f"{chance.uniform(0.05, RUN_S_MAX):.3f}", "0"],
        "resources": {"gpus": 1},
        "priority": chance.choice(["low", "medium", "medium", "high"]),
    }
    if chance.random() < 0.15:
        body["command"][2] = "3"
    if chance.random() < 0.15:
        body["preemptibility"] = "non-preemptible"
    if chance.random() < 0.5:
        body["checkpoint"] = {"signal": "USR1", "grace": "5s"}
    if chance.random() < 0.3:
        body["retry"] = _retry(chance)
    if chance.random() < 0.2:
        body["on_disconnect"] = {"replace_after": "60s"}
    kinds = list(KINDS)
    kind = (
        _elastic
        if number < ELASTIC_FIRST
        else chance.choices(kinds, weights=list(KINDS.values()))[0]
    )
    kind(chance, fleet, body)
    if chance.random() < 0.4:
        body["max_duration"] = chance.choice(["2s", "3s", "4s"])
    if fleet.is_pooled and chance.random() < 0.2:
        body.setdefault("pools", [POOL])
    by_user = chance.random() < 0.6
    return Asked(
        at_s=at_s,
        verb="job.submit",
        project=chance.choice(PROJECTS),
        key=f"j{number}",
        body=body,
        is_posted=not by_user and chance.random() < 0.5,
        user=chance.choice(USERS) if by_user else "",
    )


def _retry(chance: random.Random) -> Body:
    return {
        "on": chance.choice([["error"], ["error", "node-lost"]]),
        "attempts": chance.randint(1, 3),
        "backoff": chance.choice(["0s", "1s", "2s"]),
    }


def leased() -> Asked:
    """A job that runs for longer than its lease, for a history in which one ends."""
    body = {
        "name": "leased",
        "command": ["simulated", f"{LEASED_RUN_S}", "0"],
        "resources": {"gpus": 1},
        "priority": "very-high",
        "max_duration": "1h",  # else its project's or its pool's
        "on_disconnect": {"replace_after": "60s"},
    }
    return Asked(at_s=1.0, verb="job.submit", project=PROJECTS[0], key="leased", body=body)


def _small(chance: random.Random, _fleet: Fleet, body: Body) -> None:
    """A GPU or two of one node."""
    body["resources"] = {"gpus": chance.choice([1, 1, 1, 2])}


def _fraction(chance: random.Random, _fleet: Fleet, body: Body) -> None:
    """A share of a GPU."""
    body["resources"] = {"gpus": chance.choice([0.25, 0.5])}


def _memory(chance: random.Random, _fleet: Fleet, body: Body) -> None:
    """So much of a GPU's memory."""
    body["resources"] = {"gpu_memory": chance.choice(["10GB", "20GB"])}


def _gang(chance: random.Random, fleet: Fleet, body: Body) -> None:
    """A piece of several nodes."""
    body["nodes"] = chance.randint(2, max(2, min(3, len(fleet.nodes))))
    body["resources"] = {"gpus": chance.choice([0.5, 1, 1, 2])}


def _large(chance: random.Random, fleet: Fleet, body: Body) -> None:
    """All that a large node has: what a stream of small jobs would starve."""
    most = max(node.gpus - node.cut for node in fleet.nodes.values())
    body["resources"] = {"gpus": max(1, most - chance.randint(0, 1))}


def _elastic(chance: random.Random, fleet: Fleet, body: Body) -> None:
    """A gang that takes more nodes while there are any, and gives them up again."""
    least = chance.choice([1, 1, 1, 2])
    body["nodes"] = f"{least}..{max(least + 1, len(fleet.nodes))}"
    body["resources"] = {"gpus": chance.choice([0.5, 1, 1])}
    body["preemptibility"] = chance.choice(["preemptible", "semi-preemptible", "semi-preemptible"])
    body["priority"] = chance.choice(["low", "low", "medium"])
    body["command"][1] = f"{chance.uniform(RUN_S_MAX / 2, RUN_S_MAX):.3f}"


def _roles(chance: random.Random, fleet: Fleet, body: Body) -> None:
    """Workers of two kinds, of which those that have no GPU would run on when the others are done."""
    seconds, code = body["command"][1:]
    most = max(2, len(fleet.nodes))
    servers: Body = {"nodes": chance.choice([1, 1, f"1..{most}"]), "resources": {"cpu": 1}}
    servers["command"] = ["simulated", f"{RUN_S_MAX * 4}", "0"]
    workers: Body = {"nodes": chance.choice([1, 2, f"1..{most}"]), "resources": body["resources"]}
    workers["command"] = ["simulated", seconds, code]
    del body["command"], body["resources"]
    body["roles"] = {"ps": servers, "worker": workers}
    body["succeeds_when"] = "worker"
    if chance.random() < 0.3:
        body["preemptibility"] = "semi-preemptible"


def _near(chance: random.Random, fleet: Fleet, body: Body) -> None:
    """A gang within one rack, or rather so; without a pool nobody knows of racks."""
    _gang(chance, fleet, body)
    if fleet.is_pooled:
        level = chance.choice(["required", "preferred"])
        body["topology"] = {level: chance.choice(LEVELS)}
        body["pools"] = [POOL]


def _choosy(chance: random.Random, _fleet: Fleet, body: Body) -> None:
    """One kind of GPU, else another."""
    kinds = ["H100:1", "A100:1"]
    chance.shuffle(kinds)
    body["resources"] = {"gpus": kinds[: chance.randint(1, 2)]}


def _slice(chance: random.Random, fleet: Fleet, body: Body) -> None:
    """Slices of a GPU that is cut."""
    if fleet.has_slices:
        body["resources"] = {"gpus": f"{PROFILE}:{chance.randint(1, 2)}"}


def _sweep(chance: random.Random, _fleet: Fleet, body: Body) -> None:
    """The same command with other parameters, two at a time, to find what takes longest."""
    body["command"][1] = "${{ params.seconds }}"
    seconds = [f"{chance.uniform(0.05, 1.5):.3f}" for _ in range(3)]
    params = {"seconds": seconds, "depth": ["2", "4"][: chance.randint(1, 2)]}
    objective = {"metric": "seconds", "goal": "max"}
    body["sweep"] = {"method": "grid", "params": params, "parallel": 2, "objective": objective}


KINDS: dict[Callable[[random.Random, Fleet, Body], None], int] = {  # how often
    _small: 6,
    _fraction: 4,
    _memory: 1,
    _gang: 3,
    _elastic: 4,
    _roles: 3,
    _large: 2,
    _near: 4,
    _choosy: 2,
    _slice: 2,
    _sweep: 2,
}


def _about(chance: random.Random, earlier: Asked, what: str, within_s: float = MIND_S_MAX) -> Asked:
    """A change of mind about the job of an earlier request."""
    return Asked(
        at_s=earlier.at_s + chance.uniform(0.0, within_s),
        verb=f"job.{what}",
        project=earlier.project,
        key=f"{earlier.key}-{what}",
        body={},
        after=earlier.key,
    )
