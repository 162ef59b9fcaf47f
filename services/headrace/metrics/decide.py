"""Metrics' one decision: what an attempt used is accounted for, once, piece by piece.

Rule: thousandths of a GPU times the microseconds they were booked, from the log alone.
"""

from __future__ import annotations

from headrace.decider import Decider, Draft
from headrace.events.platform import UsageAccounted
from headrace.metrics.state import LISTENS_TO, State, evolve

ACCOUNTS_MAX = 256  # in one decision: an append holds a bounded number of events


def decide(state: State, now_us: int) -> list[Draft]:
    """One line per release, in the order of the log."""
    del now_us
    if not state.accounts_due:
        return []
    drafts = []
    for position, used in list(state.accounts_due.items())[:ACCOUNTS_MAX]:
        event = UsageAccounted(
            job=used.job,
            project=used.project,
            attempt=used.attempt,
            milli=used.milli,
            held_us=used.held_us,
        )
        drafts.append(Draft(event=event, causation=position, traceparent=used.traceparent))
    return drafts


def wakeup(state: State) -> int | None:
    """At once when a decision was cut short; time alone changes nothing."""
    return 0 if state.accounts_due else None


DECIDER = Decider(
    service="metrics",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=wakeup,
    listens_to=LISTENS_TO,
)
