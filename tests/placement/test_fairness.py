"""What projects and their users are promised of each other: protection ends, and lowering kills nobody."""

import pytest

from headrace.events.gangs import GangEvicted, GangPlaced
from headrace.placement.decide import DECIDER

from .conftest import History

SECOND_US = 1_000_000
PROTECTION_US = 60 * SECOND_US
TRIALS = 500


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def evicted_leave(history):
    """Whoever is told to stop does so at once, until nothing more is decided."""
    events = more = history.settled()
    while stopped := of(GangEvicted, more):
        for event in stopped:
            history.exits(event.job, reason="stopped", exit_code=143)
        more = history.settled()
        events += more
    return events


@pytest.mark.parametrize("later_s", [0, 45])
def test_a_sweep_of_500_trials_delays_a_colleague_by_at_most_one_protection_time(later_s):
    history = History()
    history.node("n1")
    history.queue("vision", users_equal=True, quota_milli=8000, reclaim_after_us=PROTECTION_US)
    for trial in range(TRIALS):
        history.job(f"sweep-{trial}", project="vision", user="bob", gpus=1000)
    assert len(of(GangPlaced, history.settled())) == 8
    history.now_us += later_s * SECOND_US
    history.job("colleague", project="vision", user="ada")
    asked_us = history.now_us
    evicted_leave(history)
    while history.state.jobs["colleague"].run is None:
        history.now_us = DECIDER.wakeup(history.state)
        assert history.now_us <= asked_us + PROTECTION_US
        evicted_leave(history)


@pytest.mark.parametrize("preemptible", [True, False])
@pytest.mark.parametrize(
    "lowered", [{"quota_milli": 0}, {"quota_milli": 1000, "limit_milli": 2000}]
)
def test_a_quota_or_limit_lowered_below_what_is_held_stops_nobody(preemptible, lowered):
    history = History()
    history.node("n1")
    history.queue("vision", quota_milli=8000)
    for number in range(6):
        history.job(f"j{number}", project="vision", preemptible=preemptible)
    history.settled()
    history.queue("vision", **lowered)
    history.job("another", project="vision", preemptible=preemptible, eligible=preemptible)
    assert of(GangEvicted, history.settled()) == []
    assert all(history.state.jobs[f"j{number}"].run for number in range(6))


def test_what_is_above_a_lowered_quota_is_lent_and_goes_when_its_owner_asks():
    history = History()
    history.node("n1")
    history.queue("vision", quota_milli=8000)
    history.queue("ads")
    for number in range(8):
        history.job(f"j{number}", project="vision", preemptible=number > 1)
    history.settled()
    history.queue("vision", quota_milli=2000)
    history.queue("ads", quota_milli=6000)
    assert of(GangEvicted, history.settled()) == []
    for number in range(6):
        history.job(f"a{number}", project="ads")
    evicted = {event.job for event in of(GangEvicted, evicted_leave(history))}
    assert evicted == {f"j{number}" for number in range(2, 8)}
