"""Documents of administrators: departments and projects.

Rule: one document describes one thing as a whole; what it leaves out has its default again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from headrace.documents.job_file import NotYet, Number
from headrace.documents.nearest import nearest
from headrace.documents.plan import NAME, NAME_RULE
from headrace.documents.quantities import milli, whole
from headrace.documents.refusing import DocumentError, not_yet, refuse, with_line
from headrace.documents.shape import Part, Parts, shaped
from headrace.events import Refusal
from headrace.events.queues import Queue

KINDS = ("department", "project")
KINDS_NOT_YET = ("pool", "volume", "template", "policy", "notifier")
WEIGHT_MAX = 1_000_000
PRIORITY_MAX = 1_000_000
ALL_MILLI = -1  # as a quota the whole fleet, as a limit none


class GpuAmounts(Part):
    """What a department or project is guaranteed (`all`: the whole fleet), what it may never exceed
    (`none`: nothing), and how it divides what is left over.
    """

    not_yet: ClassVar[tuple[str, ...]] = ("per_type",)

    quota: Number = 0
    limit: Number = "none"
    over_quota_weight: Number = 1
    per_type: NotYet = None


class QueueDocument(Part):
    """A department or a project; `department` is what it belongs to."""

    not_yet: ClassVar[tuple[str, ...]] = (
        "min_runtime", "max_evictions", "max_duration", "pools", "users", "budget", "members",
    )  # fmt: skip
    parts: ClassVar[Parts] = {"gpus": GpuAmounts}

    type: str = ""
    name: str = ""
    department: str = ""
    gpus: GpuAmounts = msgspec.field(default_factory=GpuAmounts)
    priority: Number = 100
    min_runtime: NotYet = None
    max_evictions: NotYet = None
    max_duration: NotYet = None
    pools: NotYet = None
    users: NotYet = None
    budget: NotYet = None
    members: NotYet = None


def read_queue(document: object, lines: Mapping[str, int] = {}) -> Queue | Refusal:
    """The department or project that a decoded document describes."""
    try:
        return _queue(document)
    except DocumentError as error:
        return with_line(error.refusal, lines)


def _queue(document: object) -> Queue:
    if isinstance(document, Mapping):
        _check_kind(document.get("type"))
    asked = shaped(document, QueueDocument)
    for field, name in (("name", asked.name), ("department", asked.department)):
        if not NAME.fullmatch(name) and (name or field == "name"):
            refuse(field, NAME_RULE, value=name or None)
    return Queue(
        queue=asked.name,
        kind=asked.type,
        parent=asked.department,
        quota_milli=_amount("gpus.quota", asked.gpus.quota, "all"),
        limit_milli=_amount("gpus.limit", asked.gpus.limit, "none"),
        weight=whole("gpus.over_quota_weight", asked.gpus.over_quota_weight, 0, WEIGHT_MAX),
        priority=whole("priority", asked.priority, 0, PRIORITY_MAX),
    )


def _check_kind(kind: object) -> None:
    """Before the fields, so that a pool is not refused for a field that a project has not."""
    if kind in KINDS:
        return
    if kind in KINDS_NOT_YET:
        not_yet("type", value=kind, instead=" or ".join(KINDS))
    if kind == "training":
        refuse("type", "is a job", value=kind, instead="headrace submit")
    near = nearest(str(kind), KINDS)
    instead = f"did you mean {near}?" if near else " or ".join(KINDS)
    rule = "must be given" if kind is None else "is not a document that can be applied"
    refuse("type", rule, value=kind, instead=instead)


def _amount(field: str, value: Number, unbounded: str) -> int:
    return ALL_MILLI if value == unbounded else milli(field, value)
