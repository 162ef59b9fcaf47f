"""Workspaces: where they go, and what is said of those that nobody uses."""

from headrace.events.asked import Workspace
from headrace.events.jobs import JobCancelling
from headrace.events.workspaces import WorkspaceSeen, WorkspaceWarned, warned_after_us

from .facts import cancel, finished, gang, history, pool, requested

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
NOTEBOOK = Workspace(idle_us=HOUR_US)


def run():
    found = history(requested("notebook-1", workspace=NOTEBOOK), requested("train-1"))
    found.settled()
    return found


def seen(unused_us, job="notebook-1", **named):
    at_us = 1_000 * HOUR_US
    return WorkspaceSeen(
        job=job, project="vision", attempt=1, at_us=at_us, watched_us=at_us - unused_us, **named
    )


def said(given):
    return [draft.event for draft in given.settled()]


def test_a_workspace_that_nobody_uses_is_warned_of_once_with_when_it_ends():
    given = run().given(seen(55 * MINUTE_US, busy_permille=4))
    (warned,) = said(given)
    assert isinstance(warned, WorkspaceWarned)
    assert warned.message == (
        "not used for 55 minutes, its GPUs at most 0.4 % busy; it ends in 5 minutes unless it is"
        " used"
    )
    assert (warned.unused_us, warned.idle_us) == (55 * MINUTE_US, HOUR_US)
    assert warned.ends_at_us == 1_000 * HOUR_US + 5 * MINUTE_US
    assert said(given) == []


def test_a_workspace_that_was_not_used_for_its_time_ends_and_says_for_how_long():
    given = run().given(seen(55 * MINUTE_US))
    said(given)
    (ending,) = said(given.given(seen(HOUR_US)))
    assert (ending.job, ending.reason) == ("notebook-1", "idle")
    assert ending.message == "not used for 60 minutes"
    assert isinstance(ending, JobCancelling)
    assert said(given) == []


def test_one_that_is_used_after_the_warning_does_not_end():
    given = run().given(seen(55 * MINUTE_US))
    said(given)
    assert said(given.given(seen(0))) == []
    assert given.state.unused == {}
    assert len(said(given.given(seen(56 * MINUTE_US)))) == 1


def test_what_ends_or_is_no_workspace_is_not_spoken_of():
    given = run().given(seen(2 * HOUR_US, job="train-1"), seen(2 * HOUR_US, job="nobody-1"))
    assert said(given) == []
    given.given(cancel("notebook-1"))
    said(given)
    assert said(given.given(seen(HOUR_US))) == []
    given.given(finished("notebook-1", outcome="cancelled"), seen(HOUR_US))
    assert said(given) == []
    assert given.state.unused == {}


def test_a_short_time_is_warned_of_when_a_fifth_of_it_is_left_and_a_long_one_five_minutes_before():
    assert warned_after_us(20_000_000) == 16_000_000
    assert warned_after_us(8 * HOUR_US) == 8 * HOUR_US - 5 * MINUTE_US


def test_a_workspace_goes_to_the_pool_build_unless_its_project_has_others():
    wants = [gang(kind="workspace"), gang(), gang(kind="workspace", pools=("train",))]
    jobs = (requested(f"a-{number}", wants=one) for number, one in enumerate(wants))
    run = history(pool("build"), pool("train"), *jobs)
    assert [d.event.gang.pools for d in run.turn()] == [("build",), (), ("train",)]
