"""The tree of queues, and what in it may keep a job waiting."""

from __future__ import annotations

from headrace.events.queues import Queue

DEPTH_MAX = 32  # levels of the queue tree that are looked at


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


def _bounds(queue: Queue, *, firm: bool) -> list[int]:
    """What may keep a job of this queue waiting; below 0 are no bounds."""
    bounds = [queue.limit_milli, queue.user_max_milli, queue.cpu_limit_milli]
    bounds.append(queue.memory_limit_bytes)
    return [*bounds, queue.quota_milli] if firm else bounds


def _parts(queue: Queue) -> dict[str, int]:
    """The limits of parts of the fleet."""
    return {
        name: part.limit_milli
        for parts in (queue.per_type, queue.per_pool)
        for name, part in parts.items()
    }


def _limits(queue: Queue, *, firm: bool) -> bool:
    """Whether what one job holds of this queue may keep another waiting."""
    return any(bound >= 0 for bound in (*_bounds(queue, firm=firm), *_parts(queue).values()))


def is_lowered(before: Queue, now: Queue, *, firm: bool) -> bool:
    """Whether a bound is lower, or another queue's are in the way."""
    old, parts = _bounds(before, firm=firm), _parts(before)
    pairs = [*zip(old, _bounds(now, firm=firm), strict=True)]
    pairs += ((parts.get(name, -1), bound) for name, bound in _parts(now).items())
    lowered = any(bound >= 0 and (was < 0 or bound < was) for was, bound in pairs)
    return lowered or before.parent != now.parent
