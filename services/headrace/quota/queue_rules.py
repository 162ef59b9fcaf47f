"""What a department's or a project's document must fulfil.

Rule: judged in the order of the log, each on the tree that the ones before it left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.decider import Draft
from headrace.events import Refusal
from headrace.events.queues import Queue, QueueConfigured, QueueRefused
from headrace.quota.ration_rules import refuse_above, refuse_numbers, warning
from headrace.quota.state import State

KINDS = ("department", "project")
DEPTH_MAX = 8  # levels of the tree
QUEUES_MAX = 10_000  # departments and projects together
APPLIED_MAX = 64  # documents in one decision

_NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,40}$")


def decide_queues(state: State) -> Iterator[Draft]:
    """The answer to each document."""
    queues = dict(state.queues) if state.applied else {}
    for position, applied in list(state.applied.items())[:APPLIED_MAX]:
        queue = applied.queue
        refusal = refuse(queues, queue, state.configured)
        if refusal is not None:
            refused = QueueRefused(name=queue.queue, refusal=refusal)
            yield Draft(event=refused, causation=position, actor=applied.user)
            continue
        before = queues.get(queue.queue)
        change = "unchanged" if before == queue else "updated" if before else "created"
        queues[queue.queue] = queue
        configured = QueueConfigured(
            name=queue.queue, queue=queue, change=change, warning=warning(state, queues, queue)
        )
        yield Draft(event=configured, causation=position, actor=applied.user)


def refuse(
    queues: Mapping[str, Queue], queue: Queue, configured: Mapping[str, int]
) -> Refusal | None:
    """Why this document cannot stand beside `queues`, whose documents were `configured` at these
    positions; None when it can.
    """
    return (
        _form(queue)
        or refuse_numbers(queue)
        or _place(queues, queue)
        or refuse_above(queues, queue, configured)
    )


def _form(queue: Queue) -> Refusal | None:
    if not _NAME.match(queue.queue):
        rule = "a name has 1 to 41 of a-z 0-9 and '-', not starting with '-'"
        return Refusal(field="name", value=queue.queue[:60], rule=rule)
    if queue.kind not in KINDS:
        rule = "is not a kind of queue"
        return Refusal(field="type", value=queue.kind, rule=rule, instead=" or ".join(KINDS))
    return None


def _place(queues: Mapping[str, Queue], queue: Queue) -> Refusal | None:
    before = queues.get(queue.queue)
    if before is not None and before.kind != queue.kind:
        rule = f"{queue.queue} is a {before.kind} already"
        return Refusal(field="type", value=queue.kind, rule=rule, instead="choose another name")
    if before is None and len(queues) >= QUEUES_MAX:
        return Refusal(field="name", value=queue.queue, rule=f"there are {QUEUES_MAX} already")
    return _parent(queues, queue) if queue.parent else None


def _parent(queues: Mapping[str, Queue], queue: Queue) -> Refusal | None:
    parent = queues.get(queue.parent)
    if parent is None or parent.kind != "department":
        departments = [q.queue for q in queues.values() if q.kind == "department"]
        known = ", ".join(sorted(departments)[:10]) or "none yet"
        rule = "no such department"
        return Refusal(
            field="department", value=queue.parent, rule=rule, instead=f"departments: {known}"
        )
    name, depth = queue.parent, 1
    while name:
        depth += 1
        if name == queue.queue:
            rule = f"{queue.queue} would be above itself"
            return Refusal(field="department", value=queue.parent, rule=rule)
        if depth > DEPTH_MAX:
            rule = f"the tree has at most {DEPTH_MAX} levels"
            return Refusal(field="department", value=queue.parent, rule=rule)
        name = queues[name].parent if name in queues else ""
    return None
