"""Whether a live job could ever be placed under the limits of its project, its user and all above.

Rule: judged by every kind and every pool that the job would accept; what others hold is no matter.
A limit lowered after a job was admitted may leave none of them: the job is held and told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.events.queues import Queue
from headrace.quota.state import Entrant
from headrace.scheduling.amounts import UNLIMITED
from headrace.scheduling.explain import gpus
from headrace.scheduling.kinds import is_model
from headrace.scheduling.rations import path_up

Bound = tuple[str, int, str]  # how a limit is said, its milli-GPUs, and of what


def never_allowed(queues: Mapping[str, Queue], entrant: Entrant) -> str:
    """Why the job can get none of what it asks for; empty when it could."""
    path = path_up(queues, entrant.project)
    reason = ""
    for kind in entrant.kinds:
        for pool in entrant.pools or ("",):
            exceeded = _exceeded(path, entrant, kind, pool)
            if not exceeded:
                return ""
            reason = reason or exceeded
    return reason


def _exceeded(path: list[Queue], entrant: Entrant, kind: tuple[str, int], pool: str) -> str:
    model, needed = kind
    for queue in path:
        for may, milli, what in _bounds(queue, entrant, model, pool):
            if milli != UNLIMITED and needed > milli:
                allowed = f"{queue.kind} {queue.queue} may hold {may} {gpus(milli)} {what}"
                return f"{allowed}, and this needs {gpus(needed)}"
    return ""


def _bounds(queue: Queue, entrant: Entrant, model: str, pool: str) -> Iterator[Bound]:
    """What bounds GPUs of this model in this pool here; and what may not be preempted, by quotas."""
    yield "at most", queue.limit_milli, "GPUs"
    if queue.users_equal:
        yield "at most", queue.user_max_milli, "GPUs for one user"
    parts = [
        (f"{name} GPUs", part) for name, part in queue.per_type.items() if is_model(model, name)
    ]
    if pool in queue.per_pool:
        parts.append((f"GPUs of pool {pool}", queue.per_pool[pool]))
    for what, part in parts:
        yield "at most", part.limit_milli, what
        if entrant.firm and part.quota_milli:
            yield "without preemption at most", part.quota_milli, what
