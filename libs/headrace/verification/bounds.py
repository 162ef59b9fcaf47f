"""The tree of queues, and what in it may keep a job waiting."""

from __future__ import annotations

from headrace.events.queues import Queue

DEPTH_MAX = 32  # levels of the queue tree that are looked at
UNLIMITED = -1


class Tree:
    """The queues as they were configured last."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}

    def path(self, project: str) -> list[Queue]:
        """The queue and everything above it."""
        path: list[Queue] = []
        while project in self.queues and len(path) < DEPTH_MAX:
            path.append(self.queues[project])
            project = path[-1].parent
        return path

    def is_under(self, project: str, queue: str) -> bool:
        """Whether that queue is the project or above it."""
        return any(above.queue == queue for above in self.path(project))

    def is_limited(self, project: str, other: str, *, firm: bool) -> bool:
        """Whether both are under a limit (a quota too, for a job that cannot be preempted)."""
        theirs = {queue.queue for queue in self.path(other)}
        shared = [queue for queue in self.path(project) if queue.queue in theirs]
        return any(_limits(queue, firm=firm) for queue in shared)


def _bounds(queue: Queue, *, firm: bool) -> dict[tuple[str, str], int]:
    """By its kind and what it is of, what may keep a job of this queue waiting; below 0
    are no bounds. Of a part that is given no quota, none bounds what cannot be preempted.
    """
    bounds = {
        ("", "gpu"): queue.limit_milli,
        ("", "user"): queue.user_max_milli if queue.users_equal else UNLIMITED,
        ("", "cpu"): queue.cpu_limit_milli,
        ("", "memory"): queue.memory_limit_bytes,
    }
    if firm:
        bounds["quota", "gpu"] = queue.quota_milli
        bounds["quota", "cpu"] = queue.cpu_quota_milli
        bounds["quota", "memory"] = queue.memory_quota_bytes
    for kind, parts in (("type", queue.per_type), ("pool", queue.per_pool)):
        for name, part in parts.items():
            bounds[kind, name] = part.limit_milli
            if firm:
                bounds[f"{kind} quota", name] = part.quota_milli or UNLIMITED
    return bounds


def _limits(queue: Queue, *, firm: bool) -> bool:
    """Whether what one job holds of this queue may keep another waiting."""
    return any(bound >= 0 for bound in _bounds(queue, firm=firm).values())


def is_lowered(before: Queue, now: Queue, *, firm: bool) -> bool:
    """Whether a bound is lower, or another queue's are in the way."""
    old = _bounds(before, firm=firm)
    pairs = ((old.get(name, UNLIMITED), bound) for name, bound in _bounds(now, firm=firm).items())
    lowered = any(bound >= 0 and (was < 0 or bound < was) for was, bound in pairs)
    return lowered or before.parent != now.parent
