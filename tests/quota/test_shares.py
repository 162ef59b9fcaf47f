"""The shares that people see weigh what was used lately, where administrators say so."""

import pytest

from headrace.events.gangs import Act, GangPlaced, GangReleased
from headrace.events.platform import ServiceLed
from headrace.events.queues import SharesDivided
from headrace.events.scheduling import Scheduling, SchedulingConfigured
from headrace.quota.decide import DECIDER

from .test_quota import History

SECOND_US = 1_000_000
EVEN = {"vision": 4000, "ads": 4000}


def told(history):
    """The shares that are told once nothing more is decided; None when they are as before."""
    found = [event for event in history.settled() if isinstance(event, SharesDivided)]
    return found[-1].shares if found else None


def placed(history, project, milli=8000):
    act = Act(rule="fits", numbers={})
    history.given(
        GangPlaced(
            job="x", project=project, attempt=1, workers=(), requested_at=1, milli=milli, act=act
        )
    )


@pytest.fixture
def busy():
    """Two projects that each want all eight GPUs."""
    history = History()
    history.node(8)
    for project in EVEN:
        history.apply(project)
    for project in EVEN:
        for number in range(8):
            history.job(f"{project}{number}", project=project)
    history.now_us += 2 * SECOND_US
    assert told(history) == EVEN
    return history


def chooses(history, **numbers):
    history.given(SchedulingConfigured(scheduling=Scheduling(**numbers), change="created"))
    history.now_us += 2 * SECOND_US
    assert told(history) is None  # nobody has used anything yet


def test_who_used_more_lately_has_the_smaller_share_when_a_window_has_closed(busy):
    chooses(busy, usage_strength_milli=1000, usage_half_life_s=256)
    placed(busy, "ads")
    assert told(busy) is None
    moment = DECIDER.wakeup(busy.state)
    assert 0 < moment - busy.now_us <= SECOND_US
    busy.now_us = moment + 64 * SECOND_US
    shares = told(busy)
    assert shares["vision"] > 4000 > shares["ads"] > 0
    assert sum(shares.values()) == 8000


def test_what_was_used_is_forgotten_in_time(busy):
    chooses(busy, usage_strength_milli=1000, usage_half_life_s=60)
    placed(busy, "ads")
    busy.now_us += 60 * SECOND_US
    assert told(busy) != EVEN
    busy.given(GangReleased(job="x", project="ads", attempt=1, shares=(), milli=8000))
    busy.now_us += 3600 * SECOND_US
    assert told(busy) == EVEN


def test_nobody_is_judged_by_it_unless_somebody_says_so(busy):
    placed(busy, "ads")
    busy.now_us += 3600 * SECOND_US
    assert told(busy) is None
    assert DECIDER.wakeup(busy.state) is None


def test_the_settings_of_whoever_leads_placement_count_where_nobody_chose(busy):
    settings = {"usage_strength_milli": 1000, "usage_half_life_s": 60}
    busy.given(ServiceLed(service="placement", epoch=1, decision_version="v", settings=settings))
    placed(busy, "ads")
    busy.now_us += 60 * SECOND_US
    assert told(busy)["vision"] > 4000
    chooses_none = SchedulingConfigured(
        scheduling=Scheduling(usage_strength_milli=0), change="created"
    )
    busy.given(chooses_none)
    busy.now_us += 2 * SECOND_US
    assert told(busy) == EVEN
