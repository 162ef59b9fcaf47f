"""Pools: nodes that belong together, how work is placed on them, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Pool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pool, as configured: the nodes whose label `label` is `value`.

    `topology` names the levels its nodes are arranged in, the widest first; a node's label of that
    name is its domain. `prices` are millionths of the `currency` for one GPU and hour, by model.
    `max_duration_us` is that of jobs for which neither their file nor their project says any (0:
    the platform's).
    """

    pool: str
    label: str
    value: str
    placement: str = "binpack"  # binpack | spread | fragmentation-aware
    topology: tuple[str, ...] = ()
    prices: dict[str, int] = {}
    currency: str = ""
    max_duration_us: int = 0

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is in the pool."""
        return labels.get(self.label) == self.value


class PoolApplyRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="pool.apply_requested.v1"
):
    """An administrator applied a pool's document."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "pool/{name}"
    name: str
    pool: Pool
    user: str = ""
    document: str = ""  # as it was applied, in JSON


class PoolConfigured(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="pool.configured.v1"
):
    """The pool stands as given from now on. `change` is created, updated or unchanged."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "pool/{name}"
    name: str
    pool: Pool
    change: str


class PoolRefused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="pool.refused.v1"):
    """The pool cannot be, and why."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "pool/{name}"
    name: str
    refusal: Refusal


class PoolPriced(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="pool.priced.v1"):
    """What the pool's GPUs cost from now on, in millionths of the currency for one GPU and hour, by
    model. Without any they are free.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "pool/{name}"
    name: str
    currency: str = ""
    prices: dict[str, int] = {}


class PoolDeleteRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="pool.delete_requested.v1"
):
    """An administrator wants a pool to be no more."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "pool/{name}"
    name: str
    user: str = ""


class PoolDeleted(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="pool.deleted.v1"):
    """It is no more: it had no nodes, and neither jobs nor queues named it."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "pool/{name}"
    name: str
