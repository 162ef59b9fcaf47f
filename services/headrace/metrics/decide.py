"""What metrics decides: what an attempt used is accounted for, once, piece by piece; and which trial
of a sweep is the best so far.

Rule: use is thousandths of a GPU times the microseconds they were booked, from the log alone.
"""

from __future__ import annotations

from itertools import islice

from headrace.decider import Decider, Draft
from headrace.events.platform import UsageAccounted
from headrace.metrics.state import LISTENS_TO, State, evolve
from headrace.metrics.sweep_rules import decide_best

BEST_MAX = 64  # in one decision
ACCOUNTS_MAX = 256  # in one decision: an append holds a bounded number of events


def decide(state: State, now_us: int) -> list[Draft]:
    """The best trials, then one line per release, in the order of the log."""
    del now_us
    drafts = list(islice(decide_best(state.sweeps), BEST_MAX))
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
    is_untold = any(sweep.best != sweep.told for sweep in state.sweeps.sweeps.values())
    return 0 if state.accounts_due or is_untold else None


DECIDER = Decider(
    service="metrics",
    state=State,
    initial=State,
    evolve=evolve,
    decide=decide,
    wakeup=wakeup,
    listens_to=LISTENS_TO,
)
