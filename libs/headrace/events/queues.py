"""Queues: departments and projects, what they are guaranteed, and how what is left is divided."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Allowance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a queue has of one part of the fleet, in thousandths of GPUs: `quota_milli` is
    guaranteed, `limit_milli` is never exceeded (-1: none).
    """

    quota_milli: int = 0
    limit_milli: int = -1


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A member (`user:ada`, `group:vision-team`, `service:vision/airflow`) and its role in the queue."""

    member: str
    role: str


class Queue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One queue of the tree, as configured.

    GPU amounts in thousandths: `quota_milli` is guaranteed (-1: the whole fleet), `limit_milli` is
    never exceeded (-1: none), `weight` divides what is left over after every quota. `per_type` and
    `per_pool` say the same of GPUs of one model and of the nodes of one pool. CPU and memory are
    not divided by default.

    What has run shorter than `reclaim_after_us` is not taken from this queue by other queues, nor
    within it for a higher priority before `preempt_after_us` (-1: as the parent; 0: at once). At
    most `evictions_max` jobs are evicted in any `evictions_per_us` (0: unbounded).
    `max_duration_us` is that of jobs without their own (0: as the parent). `users_equal`: users
    share equally; `user_max_milli` is what one of them may hold (-1: no bound). `pools` are those
    that jobs of a type are tried in when they name none. `members` are who has which role in it and
    below.
    """

    queue: str
    kind: str  # department | project
    parent: str = ""
    quota_milli: int = 0
    limit_milli: int = -1
    weight: int = 1
    priority: int = 100
    per_type: dict[str, Allowance] = {}
    per_pool: dict[str, Allowance] = {}
    cpu_quota_milli: int = -1
    cpu_limit_milli: int = -1
    memory_quota_bytes: int = -1
    memory_limit_bytes: int = -1
    reclaim_after_us: int = -1
    preempt_after_us: int = -1
    max_duration_us: int = 0
    evictions_max: int = 0
    evictions_per_us: int = 0
    users_equal: bool = False
    user_max_milli: int = -1
    pools: dict[str, tuple[str, ...]] = {}
    members: tuple[Listed, ...] = ()


class QueueApplyRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="queue.apply_requested.v1"
):
    """An administrator applied a department's or a project's document."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    queue: Queue
    user: str = ""
    document: str = ""  # as it was applied, in JSON


class QueueConfigured(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="queue.configured.v1"
):
    """The queue stands as given from now on. `change` is created, updated or unchanged. `warning`
    says what of it cannot be had today.
    """

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    queue: Queue
    change: str
    warning: str = ""


class QueueRefused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="queue.refused.v1"):
    """The document contradicts the tree, and how."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    refusal: Refusal


class QueueDeleteRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="queue.delete_requested.v1"
):
    """An administrator wants a department or a project (`queue_kind`) to be no more."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    queue_kind: str
    user: str = ""


class QueueDeleted(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="queue.deleted.v1"):
    """It is no more: no job of it had not ended, and nothing belonged to it. The roles that were
    given in it end with it. What its jobs did stays, and it can be made anew.
    """

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    queue_kind: str


class SharesDivided(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="shares.divided.v1"
):
    """Each project's fair share in milli-GPUs, for people: at most once a second, when changed.

    Placement never reads it: it divides for itself, on the state it decides on.
    """

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "shares"
    total_milli: int
    shares: dict[str, int]
