"""What a list shows, in which order.

Rule: a pure function of the projection. Only what is on the page becomes rows; every order ends in
something unique, so that a cursor stays where it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from heapq import nlargest, nsmallest
from typing import Any, NamedTuple

import msgspec

from headrace.client.model import ENDED, LIVE
from headrace.gateway.projection import Job, Projection
from headrace.gateway.rows import STATES, node_state, state_of

SORTS: dict[str, Callable[[Job], Any]] = {
    "position": lambda job: job.position,
    "project": lambda job: job.project,
    "user": lambda job: job.user,
    "name": lambda job: job.name,
    "state": state_of,
    "ended": lambda job: job.ended_at_us,
    "ran": lambda job: job.ran_us,
    "gpu-time": lambda job: job.gpu_us,
    "evictions": lambda job: job.evictions,
}

JOB_STATES = (*LIVE, *ENDED, "live", "ended")
REFUSED = "refused"
NODE_STATES = ("ready", "silent", "waiting", *dict.fromkeys(STATES.values()))
TELLING = ("waiting", "held", "starting", "running", "stopping", "paused")  # of tasks, in order

_CURSORS = msgspec.json.Decoder(tuple[str, int | str, int])


class Wish(NamedTuple):
    """Which jobs are wanted. `state` may also be `live` or `ended`; of those that ended, the
    `ended_max` that did last. `sees` says whose jobs may be listed (None: everybody's).
    """

    project: str = ""
    user: str = ""
    state: str = ""
    group: str = ""
    ended_max: int = 20
    sees: Callable[[str], bool] | None = None


def latest(projection: Projection, wish: Wish, limit: int, before: int = 0) -> list[Job]:
    """The latest `limit` of them asked for before the position `before` (0: now), oldest first."""
    found = _wanted(projection, wish, before)
    return nlargest(limit, found, key=lambda job: job.position)[::-1]


def ordered(
    projection: Projection, wish: Wish, limit: int, sort: str, cursor: str = ""
) -> tuple[list[Job], str]:
    """The first `limit` of them in an order of `SORTS` (with `-` the other way round) after the
    cursor, and the cursor of the next page (empty: there is none). Raises `KeyError` for an unknown
    order, `ValueError` for a cursor that is none of this order.
    """
    value, is_down = SORTS[sort.removeprefix("-")], sort.startswith("-")

    def key(job: Job) -> tuple[Any, int]:
        return value(job), job.position

    found: Iterable[Job] = _wanted(projection, wish)
    if cursor:
        at = _decoded(cursor, sort)
        found = [job for job in found if (key(job) < at if is_down else key(job) > at)]
    taken = (nlargest if is_down else nsmallest)(limit + 1, found, key=key)
    page = taken[:limit]
    return page, _encoded((sort, *key(page[-1]))) if len(taken) > limit else ""


def asked_about(projection: Projection, job: Job) -> Job:
    """The job, or of a sweep or array the first task that tells most of why it is not done."""
    live = (projection.live.get(name) for name in job.task_ids)
    tasks = [task for task in live if task is not None and task.state in TELLING]
    return min(tasks, key=lambda task: TELLING.index(task.state), default=job)


def nodes(projection: Projection, state: str) -> list[str]:
    """The nodes (in a state, if one is named), and those that wait for approval."""
    waiting = [] if state not in ("", "waiting") else projection.waiting
    joined = [
        name for name, node in projection.nodes.items() if not state or node_state(node) == state
    ]
    return [*joined, *(name for name in waiting if name not in projection.nodes)]


def called(
    projection: Projection, name: str, sees: Callable[[str], bool] | None = None
) -> list[Job]:
    """Jobs (not tasks) of exactly this name, of the projects that are seen (None: all), but refused
    ones: live ones first, of those the newest first.
    """
    found = _beginning(projection, f"{name}-", sees)
    same = [job for job in found if job.name == name and job.state != REFUSED]
    return sorted(same, key=lambda job: (job.job not in projection.live, -job.position))


def names_like(
    projection: Projection, prefix: str, sees: Callable[[str], bool] | None = None
) -> list[str]:
    """Ids of jobs (not of tasks) that begin with `prefix`, live ones first, of the projects that are
    seen (None: all). Refused ones are among them where there are no others.
    """
    found = _beginning(projection, prefix, sees)
    found = [job for job in found if job.state != REFUSED] or found
    return sorted((job.job for job in found), key=lambda name: name not in projection.live)


def _beginning(
    projection: Projection, prefix: str, sees: Callable[[str], bool] | None
) -> list[Job]:
    every = projection.names.beginning_with(prefix, lambda: (*projection.live, *projection.ended))
    found = (projection.job(name) for name in dict.fromkeys(every))
    return [job for job in found if job is not None and (sees is None or sees(job.project))]


def _wanted(projection: Projection, wish: Wish, before: int = 0) -> list[Job]:
    project, user, state, group, ended_max, sees = wish

    def matches(job: Job) -> bool:
        return (
            job.group == group
            and (not project or job.project == project)
            and (sees is None or sees(job.project))
            and (not user or job.user == user)
            and (not before or job.position < before)
            and (not state or state in ("live", "ended") or state_of(job) == state)
        )

    found: list[Job] = []
    if state not in ("ended", *ENDED):
        found.extend(filter(matches, projection.live.values()))
    if state not in ("live", *LIVE) and ended_max:
        ended = filter(matches, reversed(projection.ended.values()))
        found.extend(job for job, _ in zip(ended, range(ended_max), strict=False))
    return found


def _encoded(at: tuple[str, int | str, int]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(at)).decode().rstrip("=")


def _decoded(cursor: str, sort: str) -> tuple[int | str, int]:
    try:
        of, value, position = _CURSORS.decode(
            base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        )
    except (ValueError, msgspec.DecodeError) as error:
        raise ValueError("is no cursor of a list") from error
    if of != sort:
        raise ValueError("is the cursor of another order")
    return value, position
