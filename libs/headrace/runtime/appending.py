"""What one turn puts into the log: the facts that arrived, then the decisions.

Rule: a decision's header tells everything needed to make it again: basis, clock reading, its place
among the decisions of that one `decide`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.decider import Draft
from headrace.events import Header, encode, job_of, project_of, stream_of, tag_of
from headrace.events.gangs import GuardTripped
from headrace.events.guards import guards_of
from headrace.runtime.answers import Answers
from headrace.runtime.pending import PendingFact, PendingFacts
from headrace.runtime.reader import LogReader
from headrace.store.interface import APPEND_EVENTS_MAX, NewEvent


class Attempt(NamedTuple):
    """One append: `events` are the facts' followed by the drafts'."""

    facts: list[PendingFact]
    drafts: Sequence[Draft]
    events: list[NewEvent]


class _Host(Protocol):
    reader: LogReader
    pending: PendingFacts
    answers: Answers


def attempt_of(host: _Host, drafts: Sequence[Draft], now_us: int) -> Attempt:
    """The append of this turn. Decisions are never split: facts take the room that is left, and at
    least one place, so that neither starves.
    """
    facts = host.pending.batch(max(1, APPEND_EVENTS_MAX - len(drafts)))
    basis = host.reader.position
    events = [fact.event for fact in facts]
    for index, draft in enumerate(drafts):
        source, key = host.answers.request_of(draft.causation)
        events.append(
            _encoded(
                draft,
                request_source=source,
                request_key=key,
                basis=basis,
                decided_at_us=now_us,
                index=index,
                count=len(drafts),
            )
        )
    return Attempt(facts, drafts, events)


def tripped(attempt: Attempt, key: str) -> GuardTripped:
    """The alarm for a decision that the log's counters refused."""
    for draft in attempt.drafts:
        if any(guard.key == key for guard in guards_of(draft.event)):
            job, number = getattr(draft.event, "job", ""), getattr(draft.event, "attempt", 0)
            return GuardTripped(device=key.partition("/")[2], job=job, attempt=number)
    return GuardTripped(device=key.partition("/")[2], job="", attempt=0)


def _encoded(draft: Draft, **header: Any) -> NewEvent:
    event = draft.event
    project = project_of(event)
    encoded = Header(
        actor=draft.actor,
        project=project,
        causation=draft.causation,
        correlation=job_of(event),
        traceparent=draft.traceparent,
        **header,
    )
    return NewEvent(
        stream=stream_of(event),
        type=tag_of(event),
        project=project,
        header=encode(encoded),
        data=encode(event),
        guards=guards_of(event),
    )
