"""What placement remembers of how fast jobs ran.

Rule: of each family only the last measurement on so many GPUs of a model counts; who was measured
longest ago is forgotten first.
"""

from __future__ import annotations

from headrace.events import Entry
from headrace.events.performance import PerformanceMeasured
from headrace.placement.derived import index_of
from headrace.placement.option_rules import family_of
from headrace.placement.state import Measured, State

FAMILIES_MAX = 10_000
MEASURED_MAX = 64  # of one family


def measured(state: State, _entry: Entry, event: PerformanceMeasured) -> None:
    """One more attempt was measured."""
    if event.step_time_us <= 0 or event.gpus <= 0:
        return
    family = family_of(event.project, event.job)
    one = Measured(model=event.model, gpus=event.gpus, step_time_us=event.step_time_us)
    before = state.measured.pop(family, ())
    others = [m for m in before if (m.model, m.gpus) != (one.model, one.gpus)]
    state.measured[family] = (*others, one)[-MEASURED_MAX:]
    if len(state.measured) > FAMILIES_MAX:
        forgotten = next(iter(state.measured))
        del state.measured[forgotten]
        index_of(state).kin.measured(forgotten)
    if one not in before:
        index_of(state).kin.measured(family)
