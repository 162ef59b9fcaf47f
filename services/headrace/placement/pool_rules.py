"""Pools: what an administrator's document must fulfil, when one can be deleted, and how the state
follows them, and volumes.

Rule: judged in the order of the log, each beside the pools that the ones before it left. A pool is
configured before it is priced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from headrace.decider import Draft
from headrace.documents.pool_file import PLACEMENTS
from headrace.documents.wording import counted, some
from headrace.events import Decision, Entry, Refusal
from headrace.events.pools import (
    Pool,
    PoolApplyRequested,
    PoolConfigured,
    PoolDeleted,
    PoolDeleteRequested,
    PoolPriced,
    PoolRefused,
)
from headrace.events.queues import Queue
from headrace.events.volumes import VolumeConfigured, VolumeDeleted
from headrace.placement.derived import index_of
from headrace.placement.node_rules import JOBS_SHOWN_MAX
from headrace.placement.state import State

POOLS_MAX = 1_000
APPLIED_MAX = 64  # documents in one decision


def decide_pools(state: State) -> Iterator[Draft]:
    """The answer to each request."""
    pools = dict(state.pools) if state.pools_asked else {}
    users = PoolUsers(state)
    for position, asked in list(state.pools_asked.items())[:APPLIED_MAX]:
        if isinstance(asked, PoolApplyRequested):
            answers = _applied(pools, asked.pool)
        else:
            answers = [_deleted(users, pools, asked.name)]
        for answer in answers:
            yield Draft(event=answer, causation=position, actor=asked.user)


def _applied(pools: dict[str, Pool], pool: Pool) -> list[Decision]:
    before, refusal = pools.get(pool.pool), refuse(pools, pool)
    if refusal is not None:
        return [PoolRefused(name=pool.pool, refusal=refusal)]
    pools[pool.pool] = pool
    change = "unchanged" if before == pool else "updated" if before else "created"
    answers: list[Decision] = [PoolConfigured(name=pool.pool, pool=pool, change=change)]
    if _prices(before) != _prices(pool):
        answers.append(PoolPriced(name=pool.pool, currency=pool.currency, prices=pool.prices))
    return answers


def _deleted(users: PoolUsers, pools: dict[str, Pool], name: str) -> Decision:
    refusal = refuse_deletion(users, pools, name)
    if refusal is not None:
        return PoolRefused(name=name, refusal=refusal)
    del pools[name]
    return PoolDeleted(name=name)


class PoolUsers:
    """What is in each pool or names it; what all requests of one turn need is looked up once."""

    def __init__(self, state: State) -> None:
        self._state = state

    def nodes(self, pool: Pool) -> list[str]:
        """The nodes that are in it."""
        machines = self._state.machines.items()
        return sorted(node for node, machine in machines if pool.has(machine.said.labels))

    @cached_property
    def jobs(self) -> dict[str, list[str]]:
        """By pool, the live jobs that may run in it."""
        found: dict[str, list[str]] = {}
        for job_id, job in sorted(self._state.jobs.items()):
            for pool in job.gang.pools:
                found.setdefault(pool, []).append(job_id)
        return found

    def queues(self, name: str) -> list[str]:
        """The departments and projects whose documents name it."""
        queues = self._state.queues.values()
        return sorted(queue.queue for queue in queues if _names(queue, name))


def refuse_deletion(users: PoolUsers, pools: Mapping[str, Pool], name: str) -> Refusal | None:
    """Why this pool has to stay: it has nodes, or jobs or queues name it; None when it can go."""
    if name not in pools:
        return Refusal(field="pool", value=name, rule="no such pool", unknown="pool")
    pool = pools[name]
    if nodes := users.nodes(pool):
        rule = f"{counted(len(nodes), 'node')} of the fleet {_are(nodes)} in it: {some(nodes)}"
        instead = f"label them other than {pool.label}={pool.value}, or delete them"
        return Refusal(field="pool", value=name, rule=rule, instead=instead)
    if jobs := users.jobs.get(name):
        has = "has" if len(jobs) == 1 else "have"
        rule = f"{counted(len(jobs), 'job')} for it {has} not ended: {some(jobs, JOBS_SHOWN_MAX)}"
        return Refusal(field="pool", value=name, rule=rule, instead="cancel them or wait")
    if queues := users.queues(name):
        rule = f"it stands in the documents of {some(queues)}"
        return Refusal(field="pool", value=name, rule=rule, instead="apply them without it first")
    return None


def _names(queue: Queue, pool: str) -> bool:
    """Whether its jobs are tried there, or it has an allowance of it."""
    return pool in queue.per_pool or any(pool in pools for pools in queue.pools.values())


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def refuse(pools: Mapping[str, Pool], pool: Pool) -> Refusal | None:
    """Why this pool cannot stand beside `pools`; None when it can."""
    if pool.placement not in PLACEMENTS:
        instead = ", ".join(PLACEMENTS)
        return Refusal(
            field="placement", value=pool.placement, rule="is not a way of placing", instead=instead
        )
    if len(dict.fromkeys(pool.topology)) < len(pool.topology):
        return Refusal(field="topology", rule="has a level twice")
    for model, micro in pool.prices.items():
        if micro < 0:
            return Refusal(field=f"price.{model}", value=str(micro), rule="must not be negative")
    for other in pools.values():
        if other.pool != pool.pool and (other.label, other.value) == (pool.label, pool.value):
            rule = f"these are the nodes of pool {other.pool}, and a node is in one pool"
            value = f"{pool.label}={pool.value}"
            return Refusal(field="nodes.label", value=value, rule=rule, instead="another label")
    if pool.pool not in pools and len(pools) >= POOLS_MAX:
        return Refusal(field="name", value=pool.pool, rule=f"there are {POOLS_MAX} already")
    return None


def _prices(pool: Pool | None) -> tuple[str, dict[str, int]]:
    return (pool.currency, pool.prices) if pool is not None else ("", {})


def _asked(state: State, entry: Entry, event: PoolApplyRequested | PoolDeleteRequested) -> None:
    state.pools_asked[entry.position] = event


def _stands(state: State, entry: Entry, event: PoolConfigured) -> None:
    state.pools_asked.pop(entry.header.causation, None)
    state.pools[event.name] = event.pool
    index_of(state).repooled()


def _gone(state: State, entry: Entry, event: PoolDeleted) -> None:
    state.pools_asked.pop(entry.header.causation, None)
    state.pools.pop(event.name, None)
    index_of(state).repooled()


def _refused(state: State, entry: Entry, _event: PoolRefused) -> None:
    state.pools_asked.pop(entry.header.causation, None)


def _volume(state: State, _entry: Entry, event: VolumeConfigured | VolumeDeleted) -> None:
    if isinstance(event, VolumeConfigured):
        state.volumes[event.name] = event.volume
    else:
        state.volumes.pop(event.name, None)
    index_of(state).repooled()  # which nodes suit whom is asked anew


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    PoolApplyRequested: _asked,
    PoolDeleteRequested: _asked,
    PoolConfigured: _stands,
    PoolDeleted: _gone,
    PoolRefused: _refused,
    VolumeConfigured: _volume,
    VolumeDeleted: _volume,
}
