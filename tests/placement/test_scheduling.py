"""How turns are taken: applied, refused, in force at once, and what was promised stays promised."""

import json

import pytest

from headrace.decider.testing import given
from headrace.events import Refusal
from headrace.events.gangs import GangReserved
from headrace.events.platform import ServiceLed
from headrace.events.scheduling import (
    Scheduling,
    SchedulingApplyRequested,
    SchedulingConfigured,
    SchedulingDeleted,
    SchedulingDeleteRequested,
    SchedulingRefused,
)
from headrace.placement.decide import DECIDER
from headrace.placement.requests import apply_scheduling
from headrace.placement.state import SETTINGS
from headrace.runtime.service import Request

from .conftest import History

SECOND_US = 1_000_000


def asked(**numbers):
    return SchedulingApplyRequested(scheduling=Scheduling(**numbers), user="ada")


def applied(history, **numbers):
    history.given(asked(**numbers))
    return history.settled()


def test_what_is_chosen_is_in_force_and_the_rest_is_as_the_platform_has_it():
    run = given(DECIDER, asked(usage_strength_milli=500))
    (draft,) = run.turn()
    chosen = Scheduling(usage_strength_milli=500)
    assert draft.event == SchedulingConfigured(scheduling=chosen, change="created")
    assert (draft.causation, draft.actor) == (1, "ada")
    assert run.state.setting("usage_strength_milli") == 500
    assert run.state.setting("reserve_after_s") == SETTINGS["reserve_after_s"]
    assert run.turn() == []


def test_each_document_is_a_whole_one():
    run = given(
        DECIDER, asked(usage_strength_milli=500), asked(reserve_after_s=9), asked(reserve_after_s=9)
    )
    assert [draft.event.change for draft in run.turn()] == ["created", "updated", "unchanged"]
    assert run.state.setting("usage_strength_milli") == SETTINGS["usage_strength_milli"]


def test_another_leader_keeps_what_was_chosen():
    run = given(DECIDER, asked(reserve_after_s=9))
    run.turn()
    led = ServiceLed(service="placement", epoch=2, decision_version="v", settings=dict(SETTINGS))
    run.given(led)
    assert run.state.setting("reserve_after_s") == 9


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"reserve_after_s": -2}, "refused: reserve_after_s = -2 — must not be negative"),
        ({"usage_half_life_s": 0}, "refused: past_usage.half_life = 0s — must be above 0"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(numbers, said):
    run = given(DECIDER, asked(**numbers))
    (draft,) = run.turn()
    assert draft.event == SchedulingRefused(refusal=draft.event.refusal)
    assert str(draft.event.refusal) == said
    assert run.state.scheduling is None
    assert run.turn() == []


def test_who_has_waited_as_long_as_is_chosen_is_told_at_once_and_stays_told():
    history = History()
    history.node("n1")
    history.queue("default")
    history.job("holds", gpus=8000)
    history.settled()
    history.job("waits", gpus=8000)
    history.settled()
    history.now_us += 5 * SECOND_US
    assert not [e for e in history.settled() if isinstance(e, GangReserved)]
    told = [e for e in applied(history, reserve_after_s=5) if isinstance(e, GangReserved)]
    assert [event.job for event in told] == ["waits"]
    withdrawn = applied(history, reserve_after_s=86_400, reservations_max=0)
    assert not [e for e in withdrawn if isinstance(e, GangReserved)]


async def test_the_document_is_understood_or_refused():
    document = {
        "type": "scheduling",
        "past_usage": {"strength": 0.5, "half_life": "7d"},
        "reservations": {"after": "10m", "at_most": 4},
        "consolidation": {"after": "30s"},
    }
    request = Request(
        verb="scheduling.apply", project="fleet", key="k", body=json.dumps(document).encode(),
        actor="user:root",
    )  # fmt: skip
    fact = await apply_scheduling(request, None)
    assert fact == SchedulingApplyRequested(
        scheduling=Scheduling(
            usage_strength_milli=500, usage_half_life_s=604_800, reserve_after_s=600,
            reservations_max=4, consolidate_after_s=30,
        ),
        user="user:root",
        document=json.dumps(document),
    )  # fmt: skip


async def test_it_belongs_to_the_whole_fleet():
    request = Request(verb="scheduling.apply", project="vision", key="k", body=b"{}", actor="a")
    refusal = await apply_scheduling(request, None)
    assert isinstance(refusal, Refusal)
    assert refusal.field == "project"


def test_without_the_document_turns_are_taken_as_the_platform_has_it():
    run = given(DECIDER, asked(reserve_after_s=7))
    run.turn()
    assert run.state.setting("reserve_after_s") == 7
    (draft,) = run.given(SchedulingDeleteRequested(user="ada")).turn()
    assert (draft.event, draft.actor) == (SchedulingDeleted(), "ada")
    assert run.state.setting("reserve_after_s") == SETTINGS["reserve_after_s"]
    (draft,) = run.given(SchedulingDeleteRequested(user="ada")).turn()
    assert "no such document was applied" in str(draft.event.refusal)
