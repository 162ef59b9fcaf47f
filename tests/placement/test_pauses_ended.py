"""Pauses that fail, are cut short or serve others, and what is booked whatever is said."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.conftest import SECOND_US
from tests.placement.pausing import SAVES, away, booked, fleet, pause, report, resume, runs, tags

from headrace.events.attempts import AttemptOverran
from headrace.events.jobs import JobEligible
from headrace.events.nodes import NodeSilent
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    AttemptPauseFailed,
    AttemptResumed,
    GangPausing,
    JobPausing,
    JobResuming,
)


def test_a_worker_that_never_answers_takes_the_gang_one_rung_down():
    history = fleet()
    runs(history, "a")
    pause(history, "a")
    history.now_us += 61 * SECOND_US

    (evicted,) = history.settled()

    assert evicted.act.names["failed"] == "not within 60 s"


def test_one_that_breaks_on_its_way_back_starts_anew():
    history = fleet()
    runs(history, "a")
    away(history, "a")
    resume(history, "a")

    (evicted,) = report(history, AttemptPauseFailed, "a", message="restore 7: no", broken=True)

    assert (evicted.reason, evicted.act.names["lost"]) == ("pause-broken", "all that attempt 1 did")
    history.exits("a", reason="stopped", exit_code=137)
    assert tags(history.settled()) == ["gang.released", "gang.placed"]
    assert history.state.jobs["a"].lost == 0


def test_a_node_that_is_silent_is_not_asked():
    history = fleet()
    runs(history, "a")
    history.given(NodeSilent(node="n1", silent_us=10 * SECOND_US))

    (evicted,) = pause(history, "a")

    assert evicted.act.names["no_checkpoint"] == "n1 is silent"


def test_who_overran_while_it_left_its_devices_is_ended_when_it_is_back():
    history = fleet()
    runs(history, "a", max_duration_us=100 * SECOND_US)
    away(history, "a")
    history.given(AttemptOverran(job="a", project="default", attempt=1, ran_us=200 * SECOND_US))
    assert history.settled() == []
    history.cut()

    (resumed, evicted) = resume(history, "a")

    assert (resumed.job, evicted.reason) == ("a", "timeout")


def test_who_has_waited_too_long_is_not_brought_back_in_the_same_decision():
    history = fleet(gpus=1)
    runs(history, "a")
    away(history, "a")
    runs(history, "b", gpus=1000)
    resume(history, "a")
    history.exits("b")
    history.decided()
    history.now_us += 601 * SECOND_US

    decided = history.decided()

    assert [(tag, event.job) for tag, event in zip(tags(decided), decided, strict=True)] == [
        ("gang.evicted", "a")
    ]


def test_who_is_preempted_leaves_with_all_it_did_and_comes_back():
    history = fleet()
    runs(history, "low", gpus=2000, priority=10)
    history.job("high", gpus=2000, priority=70)

    (asked,) = history.settled()
    assert isinstance(asked, GangPausing)
    assert (asked.reason, asked.gainer) == ("preempted", "high")
    report(history, AttemptLocked, "low")
    left = report(history, AttemptPaused, "low")

    assert tags(left) == ["gang.paused", "gang.placed"]
    history.starts("high")
    history.exits("high")
    assert tags(history.settled())[-1] == "gang.resumed"


def test_a_preempted_job_that_cannot_leave_is_stopped_for_the_same():
    history = fleet()
    runs(history, "low", gpus=2000, priority=10, checkpoint=SAVES)
    history.job("high", gpus=2000, priority=70)
    history.settled()

    (evicted,) = report(history, AttemptPauseFailed, "low", message="no")

    assert (evicted.reason, evicted.gainer, evicted.way) == ("preempted", "high", "signal")
    history.exits("low", reason="stopped", exit_code=138)
    assert tags(history.settled()) == ["gang.released", "gang.placed"]


def test_a_paused_job_can_be_cancelled_and_gives_back_only_what_it_has():
    history = fleet()
    runs(history, "a")
    away(history, "a")
    history.cancel("a")
    (evicted,) = history.settled()
    assert evicted.reason == "cancelled"
    history.exits("a", reason="stopped", exit_code=137)

    assert tags(history.settled()) == ["gang.released", "job.finished"]
    assert booked(history) == 0
    assert history.state.nodes["n1"].memory_used_bytes == 0


def test_resumed_before_it_was_paused_it_goes_on_when_it_has_left():
    history = fleet()
    runs(history, "a")
    pause(history, "a")
    history.given(JobResuming(job="a", project="default", user="ada"))
    report(history, AttemptLocked, "a")

    assert tags(report(history, AttemptPaused, "a")) == ["gang.paused", "gang.resumed"]


KINDS = (AttemptLocked, AttemptPaused, AttemptResumed, AttemptPauseFailed)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["pause", "resume", "exit", "cancel", "cut", "late"]),
            st.tuples(st.sampled_from(KINDS), st.integers(0, 1)),
        ),
        max_size=14,
    )
)
def test_whatever_is_said_in_whatever_order_nothing_is_booked_twice(steps):
    history = fleet(nodes=2, gpus=1)
    runs(history, "a", nodes=2)
    history.job("b", nodes=2)
    for step in steps:
        _take(history, step)
        history.settled()
        booked(history)
        assert all(
            0 <= d.used_milli <= 1000 for n in history.state.nodes.values() for d in n.devices
        )
        assert all(n.memory_used_bytes >= 0 for n in history.state.nodes.values())


def _take(history, step):
    job = history.state.jobs.get("a")
    if step == "pause":
        history.given(JobPausing(job="a", project="default"))
    elif step == "resume":
        history.given(JobResuming(job="a", project="default"))
        history.given(JobEligible(job="a", project="default"))
    elif step == "exit" and job is not None and job.run is not None:
        history.exits("a", reason="stopped", exit_code=1)
    elif step == "cancel":
        history.cancel("a")
    elif step == "cut":
        history.cut()
    elif step == "late":
        history.now_us += 700 * SECOND_US
    elif isinstance(step, tuple) and job is not None and job.run is not None and job.run.pause:
        kind, rank = step
        more = {"message": "no"} if kind is AttemptPauseFailed else {}
        report(history, kind, "a", ranks=[rank], **more)


def test_every_end_that_is_no_crash_asks_who_saves_itself():
    overran = AttemptOverran(job="a", project="default", attempt=1, ran_us=200 * SECOND_US)
    for event, reason in ((overran, "timeout"), (None, "cancelled")):
        history = fleet()
        runs(history, "a", checkpoint=SAVES, max_duration_us=100 * SECOND_US)
        if event is None:
            history.cancel("a")
        else:
            history.given(event)

        (evicted,) = history.settled()

        assert (evicted.reason, evicted.way) == (reason, "signal")


def test_who_is_cancelled_now_is_not_asked_first():
    history = fleet()
    runs(history, "a", checkpoint=SAVES)
    history.cancel("a", now=True)

    (evicted,) = history.settled()

    assert (evicted.reason, evicted.way) == ("cancelled", "")


def test_who_saves_itself_for_too_long_can_be_ended_now():
    history = fleet()
    runs(history, "a", checkpoint=SAVES)
    history.cancel("a")
    history.settled()
    history.cancel("a")
    assert history.settled() == []
    history.cancel("a", now=True)

    (evicted,) = history.settled()

    assert (evicted.reason, evicted.act.rule, evicted.way) == ("cancelled", "now", "")
    assert history.settled() == []
