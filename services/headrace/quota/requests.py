"""What administrators ask quota for: the document of a department or a project.

Rule: a field that is unknown is refused with the nearest known name; one that is known and not
built yet is refused by name. Whether the numbers fit the tree is decided, not judged here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from headrace.bus.subjects import FLEET
from headrace.events import Fact, Refusal
from headrace.events.base import INTEGER_MAX
from headrace.events.queues import Queue, QueueApplyRequested
from headrace.quota.queue_rules import KINDS
from headrace.runtime.service import Request, Runtime
from headrace.scheduling.division import UNLIMITED

FIELDS = {
    "department": ("type", "name", "department", "priority", "gpus"),
    "project": ("type", "name", "department", "priority", "gpus"),
}
GPU_FIELDS = ("quota", "limit", "over_quota_weight")
NOT_YET = (
    "min_runtime", "max_evictions", "max_duration", "pools", "users", "budget", "members",
    "per_type",
)  # fmt: skip


class _Refused(Exception):  # carries a refusal out of the reading of one document
    def __init__(self, field: str, rule: str, *, value: str = "", instead: str = "") -> None:
        super().__init__(rule)
        self.refusal = Refusal(field=_shown(field), rule=rule, value=_shown(value), instead=instead)


def _shown(text: str) -> str:
    """What a stranger wrote, safe to show in one line."""
    return text[:80] if text[:80].isprintable() else ascii(text[:80])


async def apply_queue(request: Request, runtime: Runtime) -> Fact | Refusal:
    """The document as a fact."""
    del runtime
    if request.project != FLEET:
        rule = "departments and projects belong to the whole fleet"
        return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
    try:
        document = msgspec.json.decode(request.body)
        queue = queue_of(document)
    except msgspec.MsgspecError as error:
        return Refusal(field="request", rule=str(error)[:200], instead="a JSON object")
    except _Refused as refused:
        return refused.refusal
    return QueueApplyRequested(name=queue.queue, queue=queue, user=request.actor)


def queue_of(document: object) -> Queue:
    """The queue that a document describes."""
    fields = _object(document, "document")
    kind = fields.get("type")
    if kind not in KINDS:
        raise _Refused("type", "is not applied here", value=str(kind), instead=" or ".join(KINDS))
    _known(fields, FIELDS[kind], "")
    gpus = _object(fields.get("gpus", {}), "gpus")
    _known(gpus, GPU_FIELDS, "gpus.")
    return Queue(
        queue=_text(fields, "name"),
        kind=kind,
        parent=_text(fields, "department") if "department" in fields else "",
        quota_milli=_milli(gpus, "quota", 0),
        limit_milli=_milli(gpus, "limit", UNLIMITED),
        weight=_integer(gpus, "over_quota_weight", 1, "gpus."),
        priority=_integer(fields, "priority", 100, ""),
    )


def _object(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _Refused(field, "must be a mapping of fields", value=str(value))
    return value


def _known(fields: Mapping[str, Any], known: tuple[str, ...], prefix: str) -> None:
    for name in fields:
        if name in NOT_YET:
            raise _Refused(prefix + name, "not yet: this Headrace does not know what to do with it")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            instead = f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)
            raise _Refused(prefix + name[:60], "unknown field", instead=instead)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value or len(value) > 200 or not value.isprintable():
        raise _Refused(name, "must be a name", value=str(value))
    return value


def _integer(fields: Mapping[str, Any], name: str, default: int, prefix: str) -> int:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INTEGER_MAX:
        raise _Refused(prefix + name, "must be a whole number", value=str(value))
    return value


def _milli(fields: Mapping[str, Any], name: str, default: int) -> int:
    """GPUs as thousandths; `all` and -1 mean unlimited."""
    value = fields.get(name)
    if value is None:
        return default
    if value in ("all", -1):
        return UNLIMITED
    try:
        milli = Decimal(str(value)) * 1000
    except InvalidOperation:
        milli = Decimal("NaN")
    whole = milli.is_finite() and milli == milli.to_integral_value()
    if isinstance(value, bool) or not whole or abs(milli) > INTEGER_MAX:
        rule = "must be a number of GPUs with at most three decimals"
        raise _Refused(f"gpus.{name}", rule, value=str(value), instead="all for no bound")
    return int(milli)
