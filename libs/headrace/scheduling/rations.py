"""From the queues that administrators configured to those that the scheduler divides among.

Rule: pure. A project whose users share equally has a queue below it for each user with live jobs:
what the project may have is divided among these by equal weights. They are guaranteed nothing of
their own, so no user keeps what the others' equal parts are; work that cannot be preempted is
bounded by the quotas above them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headrace.events.queues import Allowance, Queue
from headrace.scheduling.amounts import UNLIMITED, at_most
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.kinds import is_model
from headrace.scheduling.parts import NO_RATION as NO_PART
from headrace.scheduling.parts import Part, PartRation, pool_part, type_part

NO_RATION = Allowance(quota_milli=0, limit_milli=UNLIMITED)


def specs_of(
    queues: Mapping[str, Queue], users: Mapping[str, Iterable[str]]
) -> dict[str, QueueSpec]:
    """Every queue, in order of age, and then the users below them: `users` are those with live
    jobs, by project.
    """
    specs = {name: spec_of(queue, age) for age, (name, queue) in enumerate(queues.items())}
    for name, parts in _promised(queues).items():
        specs[name] = msgspec.structs.replace(specs[name], parts=parts)
    return specs | leaves(queues, users)


def spec_of(queue: Queue, age: int) -> QueueSpec:
    """One configured queue; `age` orders equals: lower is older."""
    weight = max(0, queue.weight)
    return QueueSpec(
        queue=queue.queue,
        parent=queue.parent,
        priority=queue.priority,
        age=age,
        rations=(
            _ration(queue.quota_milli, queue.limit_milli, weight),
            _ration(queue.cpu_quota_milli, queue.cpu_limit_milli, weight),
            _ration(queue.memory_quota_bytes, queue.memory_limit_bytes, weight),
        ),
        reclaim_after_us=_after(queue.reclaim_after_us),
        preempt_after_us=_after(queue.preempt_after_us),
        parts=parts_of(queue),
        evictions_max=max(0, queue.evictions_max),
        evictions_per_us=max(0, queue.evictions_per_us),
    )


def parts_of(queue: Queue) -> dict[Part, PartRation]:
    """What its document says of parts of the fleet."""
    said = [(type_part(name), one) for name, one in queue.per_type.items()]
    said += [(pool_part(name), one) for name, one in queue.per_pool.items()]
    return {part: _part_ration(one) for part, one in said}


def leaves(queues: Mapping[str, Queue], users: Mapping[str, Iterable[str]]) -> dict[str, QueueSpec]:
    """The users of projects that divide among their users, as queues of their own."""
    found: dict[str, QueueSpec] = {}
    for project, queue in queues.items():
        if queue.users_equal:
            for age, user in enumerate(sorted(set(users.get(project, ())))):
                spec = _leaf(queue, user, age)
                found[spec.queue] = spec
    return found


def leaf_of(queue: Queue | None, project: str, user: str) -> str:
    """The queue that a user's jobs in a project are counted to."""
    return owner_of(project, user) if queue is not None and queue.users_equal else project


def owner_of(project: str, user: str) -> str:
    """Whose a user's jobs in a project are: never in two queues at a time."""
    return f"{project}/{user}"


def limit_of_type(per_type: Mapping[str, Allowance], model: str) -> int:
    """The tightest limit on GPUs of this model: `H100` says it of every `H100-…`."""
    limit = UNLIMITED
    for name, part in per_type.items():
        if is_model(model, name):
            limit = at_most(limit, part.limit_milli)
    return limit


def path_up(queues: Mapping[str, Queue], name: str) -> list[Queue]:
    """The queue and everything above it; ends at an unknown parent and before a repeated one."""
    path: dict[str, Queue] = {}
    while name in queues and name not in path:
        path[name] = queues[name]
        name = queues[name].parent
    return list(path.values())


def _promised(queues: Mapping[str, Queue]) -> dict[str, dict[Part, PartRation]]:
    """What queues without a quota of a part have of it all the same: what is guaranteed below them,
    so that it is theirs among the queues beside them.
    """
    said = {name: parts_of(queue) for name, queue in queues.items()}
    found: dict[str, dict[Part, PartRation]] = {}
    for name in queues:
        for part, ration in said[name].items():
            for above in path_up(queues, queues[name].parent) if ration.quota else ():
                mine = found.setdefault(above.queue, dict(said[above.queue]))
                if said[above.queue].get(part, NO_PART).quota:
                    break
                before = mine.get(part, NO_PART)
                both = (before.quota, ration.quota)
                quota = UNLIMITED if UNLIMITED in both else sum(both)
                mine[part] = msgspec.structs.replace(before, quota=quota)
    return found


def _part_ration(said: Allowance) -> PartRation:
    """A quota that is given also bounds work that cannot be preempted."""
    quota, limit = max(UNLIMITED, said.quota_milli), max(UNLIMITED, said.limit_milli)
    return PartRation(quota=quota, limit=limit, firm_limit=quota or UNLIMITED)


def _leaf(queue: Queue, user: str, age: int) -> QueueSpec:
    return QueueSpec(
        queue=leaf_of(queue, queue.queue, user),
        parent=queue.queue,
        age=age,
        rations=(
            _ration(0, queue.user_max_milli, 1),
            _ration(_unrationed(queue.cpu_quota_milli), UNLIMITED, 1),
            _ration(_unrationed(queue.memory_quota_bytes), UNLIMITED, 1),
        ),
        bounds_firm=False,
    )


def _unrationed(quota: int) -> int:
    """What nobody rations to the project is not rationed to its users either."""
    return UNLIMITED if quota == UNLIMITED else 0


def _ration(quota: int, limit: int, weight: int) -> Ration:
    """Total: below nothing there is only `UNLIMITED`."""
    return Ration(quota=max(UNLIMITED, quota), limit=max(UNLIMITED, limit), weight=weight)


def _after(after_us: int) -> int | None:
    return None if after_us < 0 else after_us
