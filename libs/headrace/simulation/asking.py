"""A request of a simulated history, and those that follow on another: jobs that wait for its end.

Rule: mostly they wait for what is to come, sometimes in vain.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from headrace.events.asked import AFTER_STATES

FOLLOWED = 0.2  # of the jobs, by one that waits for their end
FOLLOWED_ON_PURPOSE = 0.7  # of those that are to fail or to be cancelled

Body = dict[str, Any]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request: when, and through which door. `after` is the key of a request to be answered
    first; to cancel, pause or resume means the job of that one, and a job's `after` without a name
    waits for it. `user` asks through the gateway.
    """

    at_s: float
    verb: str
    project: str
    key: str
    body: Body
    is_posted: bool = False
    after: str = ""
    user: str = ""


def end_of(submitted: Asked) -> str:
    """How a job is to end that is left alone."""
    commands = [role["command"] for role in submitted.body.get("roles", {}).values()]
    commands = commands or [submitted.body["command"]]
    return "succeeded" if all(command[2] == "0" for command in commands) else "failed"


def followers(
    chance: random.Random,
    followed: Sequence[tuple[Asked, str]],
    job_of: Callable[[int, float], Asked],
) -> Iterator[Asked]:
    """Jobs, made by `job_of` from a number and a time, that wait for others to end as those are to."""
    for number, (earlier, end) in enumerate(followed):
        if chance.random() >= (FOLLOWED if end == "succeeded" else FOLLOWED_ON_PURPOSE):
            continue
        follower = job_of(len(followed) + number, earlier.at_s)
        state = chance.choice([end, end, end, *AFTER_STATES])
        yield msgspec.structs.replace(
            follower,
            project=earlier.project,
            after=earlier.key,
            body={**follower.body, "after": [{"state": state}]},
        )
