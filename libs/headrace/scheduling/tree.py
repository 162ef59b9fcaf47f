"""The queue tree with what each queue has: who may have more, and who comes next.

Rule: a limit is never exceeded at any level; jobs that cannot be preempted stay within quota at
every level; a queue within its quota comes before one above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headrace.events.asked import Gang
from headrace.events.queues import Queue
from headrace.scheduling.amounts import UNLIMITED


class Usage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Thousandths of GPUs a queue and everything below it holds; `firm_milli` of them by jobs that
    cannot be preempted.
    """

    milli: int = 0
    firm_milli: int = 0


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """Why a queue may not have more: at `queue`, `rule` (limit or quota) allows `allowed_milli`."""

    queue: str
    rule: str
    allowed_milli: int
    used_milli: int


class Tree:
    """Queues and their usage, to ask and to try on. The given usage is never changed."""

    def __init__(
        self, queues: Mapping[str, Queue], usage: Mapping[str, Usage], total_milli: int
    ) -> None:
        self.queues = queues
        self.total_milli = total_milli
        self._base = usage
        self._own: dict[str, Usage] = {}

    def used(self, queue: str) -> Usage:
        """What the queue holds in this trial: to read, never to change."""
        return self._own.get(queue) or self._base.get(queue) or Usage()

    def path(self, queue: str) -> list[str]:
        """From the root down to the queue; ends at an unknown parent or a repeated one."""
        return path_of(self.queues, queue)

    def quota_milli(self, queue: str) -> int:
        """What the queue is guaranteed."""
        quota = self.queues[queue].quota_milli if queue in self.queues else 0
        return self.total_milli if quota == UNLIMITED else quota

    def add(self, queue: str, milli: int, *, firm: bool) -> None:
        """Book (or, below zero, give back) for the queue and everything above it."""
        for name in self.path(queue):
            used = self.used(name)
            self._own[name] = Usage(
                milli=used.milli + milli, firm_milli=used.firm_milli + (milli if firm else 0)
            )

    def gate(self, queue: str, milli: int, *, firm: bool) -> Gate | None:
        """What forbids `milli` more, from the root down; None when nothing does."""
        for name in self.path(queue):
            used, limit = self.used(name), self.queues[name].limit_milli
            if limit != UNLIMITED and used.milli + milli > limit:
                return Gate(queue=name, rule="limit", allowed_milli=limit, used_milli=used.milli)
            quota = self.quota_milli(name)
            if firm and used.firm_milli + milli > quota:
                return Gate(
                    queue=name, rule="quota", allowed_milli=quota, used_milli=used.firm_milli
                )
        return None


def asked_milli(gang: Gang) -> int:
    """Thousandths of GPUs the whole gang asks for (its first preference); none where it asks for
    memory of a GPU, which is a share that depends on the GPU.
    """
    return sum(
        part.accelerators[0].milli * part.nodes
        for part in gang.by_role().values()
        if part.accelerators and not part.gpu_memory_bytes
    )


def path_of(queues: Mapping[str, Queue], queue: str) -> list[str]:
    """The names from the root down to `queue`, without repeats even if the tree had a cycle."""
    path: list[str] = []
    while queue in queues and queue not in path:
        path.append(queue)
        queue = queues[queue].parent
    return path[::-1]


def usage_of(
    queues: Mapping[str, Queue], holdings: Iterable[tuple[str, int, bool]]
) -> dict[str, Usage]:
    """What every queue holds, from `(queue, milli, firm)` of each holder."""
    usage = {name: Usage() for name in queues}
    for queue, milli, firm in holdings:
        add_usage(queues, usage, queue, milli, firm=firm)
    return usage


def add_usage(
    queues: Mapping[str, Queue], usage: dict[str, Usage], queue: str, milli: int, *, firm: bool
) -> None:
    """Book `milli` for the queue and everything above it, in place."""
    for name in path_of(queues, queue):
        used = usage[name]
        used.milli += milli
        used.firm_milli += milli if firm else 0
