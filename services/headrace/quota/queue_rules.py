"""What a department's or a project's document must fulfil, and when it can be deleted.

Rule: judged in the order of the log, each on the tree that the ones before it left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.decider import Draft
from headrace.documents.wording import counted, some
from headrace.events import Decision, Refusal
from headrace.events.queues import (
    Queue,
    QueueApplyRequested,
    QueueConfigured,
    QueueDeleted,
    QueueDeleteRequested,
    QueueRefused,
)
from headrace.quota.ration_rules import refuse_above, refuse_numbers, warning
from headrace.quota.state import State

KINDS = ("department", "project")
DEPTH_MAX = 8  # levels of the tree
QUEUES_MAX = 10_000  # departments and projects together
APPLIED_MAX = 64  # documents in one decision

_NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,40}$")


def decide_queues(state: State) -> Iterator[Draft]:
    """The answer to each document."""
    queues = dict(state.queues) if state.asked else {}
    for position, asked in list(state.asked.items())[:APPLIED_MAX]:
        if isinstance(asked, QueueApplyRequested):
            answer = _applied(state, queues, asked)
        else:
            answer = _deleted(state, queues, asked)
        yield Draft(event=answer, causation=position, actor=asked.user)


def _applied(state: State, queues: dict[str, Queue], asked: QueueApplyRequested) -> Decision:
    queue, before = asked.queue, queues.get(asked.queue.queue)
    refusal = refuse(queues, queue, state.configured)
    if refusal is not None:
        return QueueRefused(name=queue.queue, refusal=refusal)
    change = "unchanged" if before == queue else "updated" if before else "created"
    queues[queue.queue] = queue
    said = warning(state, queues, queue)
    return QueueConfigured(name=queue.queue, queue=queue, change=change, warning=said)


def _deleted(state: State, queues: dict[str, Queue], asked: QueueDeleteRequested) -> Decision:
    refusal = refuse_deletion(state, queues, asked.name, asked.queue_kind)
    if refusal is not None:
        return QueueRefused(name=asked.name, refusal=refusal)
    del queues[asked.name]
    return QueueDeleted(name=asked.name, queue_kind=asked.queue_kind)


def refuse_deletion(
    state: State, queues: Mapping[str, Queue], name: str, kind: str
) -> Refusal | None:
    """Why this department or project has to stay; None when it can go."""
    queue = queues.get(name)
    if queue is None or queue.kind != kind:
        rule = f"there is no {kind} of this name"
        if queue is not None:
            return Refusal(field=kind, value=name, rule=rule, instead=f"it is a {queue.kind}")
        return Refusal(field=kind, value=name, rule=rule, unknown=kind)
    below = sorted(other.queue for other in queues.values() if other.parent == name)
    if below:
        rule = f"{some(below)} {'belongs' if len(below) == 1 else 'belong'} to it"
        return Refusal(field=kind, value=name, rule=rule, instead="delete or move them first")
    if jobs := state.live_of.get(name, 0):
        rule = f"{counted(jobs, 'job')} of it {'has' if jobs == 1 else 'have'} not ended"
        instead = f"cancel or wait: headrace ps --project {name}"
        return Refusal(field=kind, value=name, rule=rule, instead=instead)
    return None


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
        return Refusal(
            field="department", value=queue.parent, rule="no such department", unknown="department"
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
