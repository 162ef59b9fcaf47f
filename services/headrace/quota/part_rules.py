"""Whether a live job could ever be placed under the limits of its project, its user and all above.

Rule: judged by every kind that each of its roles would accept and every pool that the job would;
what others hold is no matter. A limit lowered after a job was admitted may leave none of them: the
job is held and told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from headrace.events.queues import Queue
from headrace.quota.state import Entrant
from headrace.scheduling.amounts import UNLIMITED
from headrace.scheduling.explain import gpus
from headrace.scheduling.kinds import is_model
from headrace.scheduling.rations import path_up

CHOICES_MAX = 256  # of kinds and pools judged for one job; with more it may compete

Choice = tuple[tuple[str, int], ...]  # a model for each role, and its milli-GPUs
Bound = tuple[str, int, str, int]  # how a limit is said, its milli-GPUs, of what, the job's of that


def never_allowed(queues: Mapping[str, Queue], entrant: Entrant) -> str:
    """Why the job can get none of what it asks for; empty when it could."""
    if not entrant.kinds:
        return ""
    path = path_up(queues, entrant.project)
    every = product(product(*entrant.kinds), entrant.pools or ("",))
    reason = ""
    for number, (choice, pool) in enumerate(every):
        exceeded = _exceeded(path, entrant, choice, pool)
        if not exceeded or number >= CHOICES_MAX:
            return ""
        reason = reason or exceeded
    return reason


def _exceeded(path: list[Queue], entrant: Entrant, choice: Choice, pool: str) -> str:
    for queue in path:
        for may, milli, what, needed in _bounds(queue, entrant, choice, pool):
            if milli != UNLIMITED and needed > milli:
                allowed = f"{queue.kind} {queue.queue} may hold {may} {gpus(milli)} {what}"
                return f"{allowed}, and this needs {gpus(needed)}"
    return ""


def _bounds(queue: Queue, entrant: Entrant, choice: Choice, pool: str) -> Iterator[Bound]:
    """What bounds GPUs of these models in this pool here; and what may not be preempted, by quotas."""
    needed = sum(milli for _, milli in choice)
    yield "at most", queue.limit_milli, "GPUs", needed
    if queue.users_equal:
        yield "at most", queue.user_max_milli, "GPUs for one user", needed
    parts = [
        (f"{name} GPUs", part, sum(milli for model, milli in choice if is_model(model, name)))
        for name, part in queue.per_type.items()
    ]
    if pool in queue.per_pool:
        parts.append((f"GPUs of pool {pool}", queue.per_pool[pool], needed))
    for what, part, milli in parts:
        yield "at most", part.limit_milli, what, milli
        if entrant.firm and part.quota_milli:
            yield "without preemption at most", part.quota_milli, what, milli
