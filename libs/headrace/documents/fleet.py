"""Documents of administrators: departments and projects, and which document is which.

Rule: one document describes one thing as a whole; what it leaves out has its default again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NoReturn, TypeAlias, TypeVar

import msgspec

from headrace.documents.job_file import NotYet, Number
from headrace.documents.listed import listed
from headrace.documents.names import RESERVED, name_of, pool_names
from headrace.documents.nearest import nearest
from headrace.documents.plan import TYPES, max_duration_us
from headrace.documents.pool_file import KIND, pool_of
from headrace.documents.quantities import byte_size, duration_us, milli, whole
from headrace.documents.refusing import DocumentError, not_yet, refuse, with_line
from headrace.documents.scheduling_file import SCHEDULING, scheduling_of
from headrace.documents.shape import Part, Parts, shaped
from headrace.documents.template_file import TEMPLATE, template_of
from headrace.documents.volume_file import VOLUME, volume_of
from headrace.documents.webhook_file import WEBHOOK, NamedWebhook, webhook_of
from headrace.events import Refusal
from headrace.events.pools import Pool
from headrace.events.queues import Allowance, Queue
from headrace.events.scheduling import Scheduling
from headrace.events.templates import Template
from headrace.events.volumes import Volume

KINDS = ("department", "project")
KINDS_NOT_YET = ("policy",)
WEIGHT_MAX = 1_000_000
PRIORITY_MAX = 1_000_000
FAIR = "equal"
EVICTIONS_MAX = 1_000_000
PARTS_MAX = 64  # GPU models, or pools, of one queue
UNLIMITED = -1  # as a quota the whole fleet, as a limit none
AS_PARENT = -1

T = TypeVar("T")
Applied: TypeAlias = Queue | Pool | NamedWebhook | Volume | Scheduling | Template


class Amounts(Part):
    """What is guaranteed (`all`: the whole fleet's) and what is never exceeded (`none`: nothing)."""

    quota: Number = 0
    limit: Number = "none"


class AmountsAll(Part):
    """The same of what is not rationed unless somebody says so."""

    quota: Number = "all"
    limit: Number = "none"


class GpuAmounts(Amounts):
    """The same of GPUs, of those of one model and of one pool's; `over_quota_weight` divides what is
    left over.
    """

    each: ClassVar[Parts] = {"per_type": Amounts, "per_pool": Amounts}

    over_quota_weight: Number = 1
    per_type: dict[str, Amounts] = {}
    per_pool: dict[str, Amounts] = {}


class MinRuntime(Part):
    """How long a job has run before it may be preempted, or reclaimed by another queue."""

    preempt: Number = ""
    reclaim: Number = ""


class MaxEvictions(Part):
    """At most `count` in any time as long as `per`."""

    count: Number = ""
    per: str = ""


class Users(Part):
    """How a project is divided among its users; `max_gpus` is what one of them may hold."""

    fair: str = FAIR
    max_gpus: Number = "none"


class QueueDocument(Part):
    """A department or a project; `department` is what it belongs to."""

    not_yet: ClassVar[tuple[str, ...]] = ("budget",)
    parts: ClassVar[Parts] = {
        "gpus": GpuAmounts, "cpu": AmountsAll, "memory": AmountsAll, "min_runtime": MinRuntime,
        "max_evictions": MaxEvictions, "users": Users,
    }  # fmt: skip

    type: str = ""
    name: str = ""
    department: str = ""
    gpus: GpuAmounts = msgspec.field(default_factory=GpuAmounts)
    cpu: AmountsAll = msgspec.field(default_factory=AmountsAll)
    memory: AmountsAll = msgspec.field(default_factory=AmountsAll)
    priority: Number = 100
    min_runtime: MinRuntime = msgspec.field(default_factory=MinRuntime)
    max_evictions: MaxEvictions | None = None
    max_duration: str = ""
    pools: dict[str, list[str]] = {}
    users: Users | None = None
    budget: NotYet = None
    members: list[dict[str, str]] = []


def read_fleet(document: object, lines: Mapping[str, int] = {}) -> Applied | Refusal:
    """Whatever a decoded administrator's document describes."""
    try:
        return READERS[_kind_of(document, tuple(READERS))](document)
    except DocumentError as error:
        return with_line(error.refusal, lines)


def read_queue(document: object) -> Queue | Refusal:
    """The department or project that a decoded document describes."""
    return _read(document, KINDS, _queue)


def read_pool(document: object) -> Pool | Refusal:
    """The pool that a decoded document describes."""
    return _read(document, (KIND,), pool_of)


def read_volume(document: object) -> Volume | Refusal:
    """The volume that a decoded document describes."""
    return _read(document, (VOLUME,), volume_of)


def read_webhook(document: object) -> NamedWebhook | Refusal:
    """The webhook that a decoded document describes."""
    return _read(document, (WEBHOOK,), webhook_of)


def read_template(document: object) -> Template | Refusal:
    """The template that a decoded document describes."""
    return _read(document, (TEMPLATE,), template_of)


def read_scheduling(document: object) -> Scheduling | Refusal:
    """How turns are to be taken, as a decoded document describes it."""
    return _read(document, (SCHEDULING,), scheduling_of)


def _read(document: object, kinds: tuple[str, ...], of: Callable[[object], T]) -> T | Refusal:
    try:
        _kind_of(document, kinds)
        return of(document)
    except DocumentError as error:
        return error.refusal


def _kind_of(document: object, kinds: tuple[str, ...]) -> str:
    """First, so that a pool is not refused for a field that a project has not."""
    kind = document.get("type") if isinstance(document, Mapping) else kinds[0]
    if not isinstance(kind, str) or kind not in kinds:
        _refuse_kind(kind, kinds)
    return kind


def _refuse_kind(kind: object, kinds: tuple[str, ...]) -> NoReturn:
    words = f"{', '.join(kinds[:-1])} or {kinds[-1]}" if kinds[1:] else kinds[0]
    if kind in KINDS_NOT_YET:
        not_yet("type", value=kind, instead=words)
    if kind in TYPES:
        refuse("type", "is a job", value=kind, instead="headrace submit")
    near = nearest(str(kind), kinds)
    rule = "must be given" if kind is None else "is not a document that can be applied"
    refuse("type", rule, value=kind, instead=f"did you mean {near}?" if near else words)


def _queue(document: object) -> Queue:
    asked = shaped(document, QueueDocument)
    if asked.name in RESERVED:
        refuse("name", "is the whole fleet's own", value=asked.name)
    evictions_max, evictions_per_us = _evictions(asked.max_evictions)
    users_equal, user_max_milli = _users(asked)
    return Queue(
        queue=name_of("name", asked.name),
        kind=asked.type,
        parent=asked.department and name_of("department", asked.department),
        quota_milli=_milli("gpus.quota", asked.gpus.quota),
        limit_milli=_milli("gpus.limit", asked.gpus.limit),
        weight=whole("gpus.over_quota_weight", asked.gpus.over_quota_weight, 0, WEIGHT_MAX),
        priority=whole("priority", asked.priority, 0, PRIORITY_MAX),
        per_type=_allowances("gpus.per_type", asked.gpus.per_type),
        per_pool=_allowances("gpus.per_pool", asked.gpus.per_pool),
        cpu_quota_milli=_milli("cpu.quota", asked.cpu.quota),
        cpu_limit_milli=_milli("cpu.limit", asked.cpu.limit),
        memory_quota_bytes=_bytes("memory.quota", asked.memory.quota),
        memory_limit_bytes=_bytes("memory.limit", asked.memory.limit),
        reclaim_after_us=_protection_us("min_runtime.reclaim", asked.min_runtime.reclaim),
        preempt_after_us=_protection_us("min_runtime.preempt", asked.min_runtime.preempt),
        max_duration_us=max_duration_us(asked.max_duration),
        evictions_max=evictions_max,
        evictions_per_us=evictions_per_us,
        users_equal=users_equal,
        user_max_milli=user_max_milli,
        pools={
            _job_type(type_): pool_names(f"pools.{type_}", asked.pools[type_])
            for type_ in asked.pools
        },
        members=listed(asked.members, asked.type),
    )


def _milli(field: str, value: Number) -> int:
    return UNLIMITED if value == _unbounded(field) else milli(field, value)


def _bytes(field: str, value: Number) -> int:
    if value == _unbounded(field):
        return UNLIMITED
    return 0 if value in (0, "0") else byte_size(field, value)


def _unbounded(field: str) -> str:
    """The word for all there is, as a quota, or for no bound."""
    return "all" if field.endswith("quota") else "none"


def _allowances(field: str, parts: Mapping[str, Amounts]) -> dict[str, Allowance]:
    if len(parts) > PARTS_MAX:
        refuse(field, f"has at most {PARTS_MAX} names")
    for name in parts:
        if not 0 < len(name) <= 63 or not name.isprintable():
            refuse(field, "a name has 1 to 63 printable characters", value=name)
    return {
        name: Allowance(
            quota_milli=_milli(f"{field}.{name}.quota", part.quota),
            limit_milli=_milli(f"{field}.{name}.limit", part.limit),
        )
        for name, part in parts.items()
    }


def _protection_us(field: str, value: Number) -> int:
    if value == "":
        return AS_PARENT
    return 0 if value in (0, "0", "0s") else duration_us(field, value)


def _evictions(asked: MaxEvictions | None) -> tuple[int, int]:
    if asked is None:
        return 0, 0
    count = whole("max_evictions.count", asked.count, 1, EVICTIONS_MAX)
    return count, duration_us("max_evictions.per", asked.per)


def _users(asked: QueueDocument) -> tuple[bool, int]:
    """Whether users share equally, and what one of them may hold."""
    if asked.users is None:
        return False, UNLIMITED
    if asked.type != "project":
        refuse("users", "only a project has users", instead="say it in its projects")
    if asked.users.fair != FAIR:
        rule = "is not one of the words known here"
        refuse("users.fair", rule, value=asked.users.fair, instead=FAIR)
    return True, _milli("users.max_gpus", asked.users.max_gpus)


def _job_type(kind: str) -> str:
    if kind not in TYPES:
        refuse(f"pools.{kind[:60]}", "is not a type of job", instead=", ".join(TYPES))
    return kind


READERS: dict[str, Callable[[object], Applied]] = {  # by the type that the document says
    **dict.fromkeys(KINDS, _queue),
    KIND: pool_of,
    VOLUME: volume_of,
    TEMPLATE: template_of,
    WEBHOOK: webhook_of,
    SCHEDULING: scheduling_of,
}
