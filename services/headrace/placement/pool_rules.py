"""Pools: what an administrator's document must fulfil, and how the state follows it, and volumes.

Rule: judged in the order of the log, each beside the pools that the ones before it left. A pool is
configured before it is priced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.decider import Draft
from headrace.documents.pool_file import PLACEMENTS
from headrace.events import Entry, Refusal
from headrace.events.pools import (
    Pool,
    PoolApplyRequested,
    PoolConfigured,
    PoolPriced,
    PoolRefused,
)
from headrace.events.volumes import VolumeConfigured
from headrace.placement.derived import index_of
from headrace.placement.state import PoolApply, State

POOLS_MAX = 1_000
APPLIED_MAX = 64  # documents in one decision


def decide_pools(state: State) -> Iterator[Draft]:
    """The answer to each document."""
    pools = dict(state.pools) if state.pools_applied else {}
    for position, applied in list(state.pools_applied.items())[:APPLIED_MAX]:
        pool, before = applied.pool, pools.get(applied.pool.pool)
        refusal = refuse(pools, pool)
        if refusal is not None:
            refused = PoolRefused(name=pool.pool, refusal=refusal)
            yield Draft(event=refused, causation=position, actor=applied.user)
            continue
        pools[pool.pool] = pool
        change = "unchanged" if before == pool else "updated" if before else "created"
        configured = PoolConfigured(name=pool.pool, pool=pool, change=change)
        yield Draft(event=configured, causation=position, actor=applied.user)
        if _prices(before) != _prices(pool):
            priced = PoolPriced(name=pool.pool, currency=pool.currency, prices=pool.prices)
            yield Draft(event=priced, causation=position, actor=applied.user)


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


def _applied(state: State, entry: Entry, event: PoolApplyRequested) -> None:
    state.pools_applied[entry.position] = PoolApply(pool=event.pool, user=event.user)


def _configured(state: State, entry: Entry, event: PoolConfigured) -> None:
    state.pools_applied.pop(entry.header.causation, None)
    state.pools[event.name] = event.pool
    index_of(state).repooled()


def _refused(state: State, entry: Entry, _event: PoolRefused) -> None:
    state.pools_applied.pop(entry.header.causation, None)


def _volume(state: State, _entry: Entry, event: VolumeConfigured) -> None:
    state.volumes[event.name] = event.volume
    index_of(state).repooled()  # which nodes suit whom is asked anew


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    PoolApplyRequested: _applied,
    PoolConfigured: _configured,
    PoolRefused: _refused,
    VolumeConfigured: _volume,
}
