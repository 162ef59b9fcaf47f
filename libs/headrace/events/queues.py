"""Queues: departments and projects, what they are guaranteed, and how what is left is divided."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.events.base import Decision, Fact, Refusal


class Queue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One queue of the tree, as configured.

    GPU amounts in thousandths: `quota_milli` is guaranteed (-1: the whole fleet), `limit_milli` is
    never exceeded (-1: none), `weight` divides what is left over after every quota.
    """

    queue: str
    kind: str  # department | project
    parent: str = ""
    quota_milli: int = 0
    limit_milli: int = -1
    weight: int = 1
    priority: int = 100


class QueueApplyRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="queue.apply_requested.v1"
):
    """An administrator applied a department's or a project's document."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    queue: Queue
    user: str = ""


class QueueConfigured(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="queue.configured.v1"
):
    """The queue stands as given from now on. `change` is created, updated or unchanged."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    queue: Queue
    change: str


class QueueRefused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="queue.refused.v1"):
    """The document contradicts the tree, and how."""

    owner: ClassVar[str] = "quota"
    stream: ClassVar[str] = "queue/{name}"
    name: str
    refusal: Refusal


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
