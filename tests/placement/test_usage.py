"""What projects used lately weighs in what is over quota, when an administrator says so."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.decider import fold
from headrace.events.gangs import GangEvicted, GangPlaced
from headrace.events.platform import ServiceLed
from headrace.placement.decide import DECIDER
from headrace.placement.following import world_at
from headrace.placement.state import SETTINGS

from .conftest import History

HOUR_US = 3_600 * 1_000_000
DAY_S = 86_400


def led(history, *, strength=1000, half_life_s=DAY_S, min_runtime_s=60):
    chosen = SETTINGS | {
        "usage_strength_milli": strength, "usage_half_life_s": half_life_s,
        "usage_min_runtime_s": min_runtime_s,
    }  # fmt: skip
    history.given(
        ServiceLed(service="placement", epoch=1, decision_version="v", settings=dict(chosen))
    )


def fleet(*projects, strength=1000, **numbers):
    history = History()
    led(history, strength=strength)
    history.node("n1")
    for name in projects:
        history.queue(name, **numbers)
    return history


def used_all(history, project, hours=24, user="ada"):
    """The project has all eight GPUs for so long."""
    history.job(f"long-{project}-{user}", project=project, gpus=8000, user=user)
    history.settled()
    history.now_us += hours * HOUR_US
    history.exits(f"long-{project}-{user}")
    history.settled()


def both_wait(history, one, other):
    """Each has eight jobs; how many of each are placed."""
    history.job("holds", project=one, gpus=8000, priority=90)
    history.settled()
    for number in range(8):
        for project in (one, other):
            history.job(f"{project}{number}", project=project)
    history.exits("holds")
    events = history.settled()
    return Counter(event.project for event in events if isinstance(event, GangPlaced))


def shares(history):
    world = world_at(history.state, history.now_us)
    return {name: account.share[0] for name, account in world.accounts.by_name.items()}


def test_who_used_more_lately_gets_less_of_what_is_over_quota():
    history = fleet("ads", "vision")
    used_all(history, "ads")
    assert both_wait(history, "vision", "ads") == {"vision": 5, "ads": 3}


def test_by_itself_only_weight_counts():
    history = fleet("ads", "vision", strength=0)
    used_all(history, "ads")
    assert both_wait(history, "vision", "ads") == {"vision": 4, "ads": 4}


def test_what_is_guaranteed_is_had_whatever_was_used():
    history = fleet("ads", "vision", quota_milli=4000)
    used_all(history, "ads")
    assert both_wait(history, "vision", "ads") == {"vision": 4, "ads": 4}


def test_what_was_used_long_ago_counts_less_and_less():
    history = fleet("ads", "vision")
    used_all(history, "ads")
    for number in range(8):
        for project in ("ads", "vision"):
            history.job(f"{project}{number}", project=project)
    history.settled()
    given_to_ads = []
    for _ in range(5):
        given_to_ads.append(shares(history)["ads"])
        history.now_us += 24 * HOUR_US
    assert given_to_ads == sorted(given_to_ads)
    assert given_to_ads[0] == 3000
    assert given_to_ads[-1] >= 4000  # by then vision has used more


def test_time_alone_gives_back_what_was_had_for_less_usage():
    """Whoever had more than half, as it had used less, loses that again in the course of time."""
    history = fleet("ads", "vision")
    assert DECIDER.wakeup(history.state) == 0
    history.settled()
    assert DECIDER.wakeup(history.state) is None
    used_all(history, "vision")
    assert both_wait(history, "ads", "vision") == {"ads": 5, "vision": 3}
    for _ in range(1000):
        wakeup_us = DECIDER.wakeup(history.state)
        assert wakeup_us <= history.now_us + DAY_S * 1_000_000 // 256
        history.now_us = max(history.now_us, wakeup_us)
        evicted = [event for event in history.settled() if isinstance(event, GangEvicted)]
        if evicted:
            break
    assert [(event.project, event.reason) for event in evicted] == [("ads", "reclaimed")]


def test_users_of_one_project_are_judged_by_what_each_used():
    history = fleet("lab", users_equal=True)
    used_all(history, "lab", user="ada")
    history.job("holds", project="lab", gpus=8000, priority=90, user="eve")
    history.settled()
    for number in range(8):
        for user in ("ada", "bob"):
            history.job(f"{user}{number}", project="lab", user=user)
    history.exits("holds")
    placed = [event.job for event in history.settled() if isinstance(event, GangPlaced)]
    assert Counter(name[:3] for name in placed) == {"bob": 5, "ada": 3}


@pytest.mark.parametrize("change", ["tree", "half-life"])
def test_what_was_used_is_kept_through_a_change(change):
    history = fleet("ads", "vision")
    history.job("a", project="ads", gpus=8000)
    history.settled()
    history.now_us += 24 * HOUR_US
    if change == "tree":
        history.queue("research", kind="department", quota_milli=-1)
        history.queue("ads", parent="research")
    else:
        led(history, half_life_s=7 * DAY_S)
    history.now_us += 24 * HOUR_US
    history.exits("a")
    history.settled()
    meters = history.state.meters.by_queue
    assert {name: meter.milli for name, meter in meters.items() if meter.milli} == {}
    assert meters["ads"].closed > 8 * 24 * HOUR_US  # GPU microseconds, of which half a day decayed


moves = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.sampled_from(("ads", "vision", "lab")), st.integers(1, 6)),
        st.tuples(st.just("exit"), st.integers(0, 30)),
        st.tuples(st.just("pass"), st.integers(1, 100)),
        st.tuples(st.just("queue"), st.sampled_from(("ads", "vision")), st.integers(0, 3)),
        st.tuples(st.just("led"), st.sampled_from((0, 500, 1000, 4000)), st.integers(1, 3)),
    ),
    max_size=30,
)


def play(history, move):
    if move[0] == "job":
        name = f"j{len(history.entries)}"
        history.job(name, project=move[1], gpus=move[2] * 1000, user=f"u{move[2] % 2}")
    elif move[0] == "pass":
        history.now_us += move[1] * HOUR_US // 4
    elif move[0] == "queue":
        history.queue(move[1], weight=move[2] or 1, users_equal=bool(move[2]), quota_milli=1000)
    elif move[0] == "led":
        led(history, strength=move[1], half_life_s=move[2] * DAY_S // 4)
    else:
        running = [name for name, job in history.state.jobs.items() if job.run is not None]
        if running:
            history.exits(running[move[1] % len(running)], reason="stopped", exit_code=143)


@given(played=moves, cuts=st.sets(st.integers(0, 30)))
@settings(max_examples=80, deadline=None)
def test_any_cut_gives_the_same_decisions_and_the_same_bytes(played, cuts):
    history, twin = (fleet("ads", "vision", "lab", users_equal=True) for _ in range(2))
    for number, move in enumerate(played):
        play(history, move)
        play(twin, move)
        if number in cuts:
            twin.cut()
        assert twin.decided() == history.decided()
        assert shares(twin) == shares(history)
        held = Counter()
        for job in history.state.jobs.values():
            held[job.project] += job.run.milli if job.run is not None else 0
        for name, milli in held.items():
            meter = history.state.meters.by_queue.get(name)
            assert meter is None or meter.milli == milli
    assert msgspec.json.encode(history.state) == msgspec.json.encode(twin.state)
    again = fold(DECIDER, DECIDER.initial(), history.entries)
    assert msgspec.json.encode(again) == msgspec.json.encode(history.state)


def evictions_within(history, seconds):
    """How many gangs are evicted when turns follow each other for so long."""
    found = 0
    for _ in range(seconds * 4):
        history.now_us += 250_000
        found += sum(isinstance(event, GangEvicted) for event in history.settled())
    return found


def sharing(min_runtime_s):
    """Three users with equal parts of eight GPUs, of which two have one more than the third."""
    history = History()
    led(history, half_life_s=60, min_runtime_s=min_runtime_s)
    history.node("n1")
    history.queue("ads", users_equal=True)
    for user in ("ada", "bob", "eve"):
        for number in range(8):
            history.job(f"{user}-{number}", project="ads", user=user)
    history.settled()
    return history


def test_users_do_not_take_from_each_other_what_has_just_begun():
    assert evictions_within(sharing(0), 20) > 0
    history = sharing(60)
    assert evictions_within(history, 55) == 0
    assert 0 < evictions_within(history, 10) < 5


def test_what_is_guaranteed_is_taken_at_once_whatever_counts():
    history = fleet("ads")
    history.queue("vision", quota_milli=8000)
    history.job("theirs", project="ads", gpus=8000)
    history.settled()
    history.job("ours", project="vision", gpus=8000)
    assert any(isinstance(event, GangEvicted) for event in history.settled())


def test_a_queue_that_says_how_long_is_heard_instead():
    history = fleet("ads", "vision", reclaim_after_us=5_000_000)
    for project in ("ads", "vision"):
        for number in range(8):
            history.job(f"{project}{number}", project=project)
        history.settled()
    assert evictions_within(history, 4) == 0
    assert evictions_within(history, 2) == 4
