"""What is done about an attempt, for every combination of wanted, seen and reported."""

from __future__ import annotations

import pytest

from headrace.bus.agents import Assignment
from headrace.node_agent.machine import End, Seen
from headrace.node_agent.reconcile import (
    Action,
    Forget,
    Reported,
    ReportExited,
    ReportStarted,
    Start,
    Stop,
    reconcile,
)

WANTED = Assignment(job="j", attempt=1, rank=0, position=20, project="p")
STOPPED = Assignment(
    job="j", attempt=1, rank=0, position=20, project="p", stop=True, stop_reason="preempted",
    grace_s=7,
)  # fmt: skip
STARTING = Seen(phase="starting", project="p")
RUNNING = Seen(phase="running", project="p", started_at_us=5)
STOPPING = Seen(phase="running", project="p", started_at_us=5, stopping=True)
WELL = End(reason="exited", started_at_us=5, ended_at_us=9)
NEVER = End(reason="start-failed", exit_code=127)
ENDED = Seen(phase="ended", project="p", end=WELL)
FAILED = Seen(phase="ended", project="p", end=NEVER)

NOTHING = Reported()
SAID_STARTED = Reported(started=True, settled=True)
SAID_ALL = Reported(started=True, exited=True)
SETTLED = Reported(started=True, exited=True, settled=True)


@pytest.mark.parametrize(
    ("wanted", "seen", "reported", "actions"),
    [
        (WANTED, None, NOTHING, [Start(WANTED)]),
        (WANTED, STARTING, NOTHING, []),
        (WANTED, RUNNING, NOTHING, [ReportStarted(5)]),
        (WANTED, RUNNING, SAID_STARTED, []),
        (WANTED, ENDED, NOTHING, [ReportStarted(5), ReportExited(WELL)]),
        (WANTED, ENDED, SAID_STARTED, [ReportExited(WELL)]),
        (WANTED, FAILED, NOTHING, [ReportExited(NEVER)]),
        (WANTED, ENDED, SAID_ALL, []),
        (WANTED, ENDED, SETTLED, []),
        (WANTED, None, SAID_ALL, []),
        (STOPPED, RUNNING, SAID_STARTED, [Stop("preempted", 7)]),
        (STOPPED, STARTING, NOTHING, [Stop("preempted", 7)]),
        (STOPPED, RUNNING, NOTHING, [ReportStarted(5), Stop("preempted", 7)]),
        (STOPPED, STOPPING, SAID_STARTED, []),
        (STOPPED, ENDED, SAID_STARTED, [ReportExited(WELL)]),
        (None, RUNNING, NOTHING, [ReportStarted(5)]),
        (None, RUNNING, SAID_STARTED, []),
        (None, ENDED, SAID_STARTED, [ReportExited(WELL)]),
        (None, ENDED, SAID_ALL, []),
        (None, ENDED, SETTLED, [Forget()]),
        (None, None, SETTLED, [Forget()]),
        (None, None, SAID_ALL, []),
        (None, None, NOTHING, []),
    ],
)
def test_each_situation_has_its_actions(
    wanted: Assignment | None, seen: Seen | None, reported: Reported, actions: list[Action]
) -> None:
    assert reconcile(wanted, seen, reported, rebooted_at=0) == actions


@pytest.mark.parametrize(
    ("wanted", "reported", "rebooted_at", "reason"),
    [
        (STOPPED, NOTHING, 0, "stopped"),
        (WANTED, NOTHING, 20, "lost"),
        (WANTED, SAID_STARTED, 0, "lost"),
        (None, SAID_STARTED, 0, "lost"),
    ],
)
def test_what_is_not_here_and_may_not_start_has_ended(
    wanted: Assignment | None, reported: Reported, rebooted_at: int, reason: str
) -> None:
    (action,) = reconcile(wanted, None, reported, rebooted_at)

    assert isinstance(action, ReportExited)
    assert action.end.reason == reason


def test_what_was_granted_after_the_reboot_starts() -> None:
    assert reconcile(WANTED, None, NOTHING, rebooted_at=19) == [Start(WANTED)]


@pytest.mark.parametrize("wanted", [None, WANTED, STOPPED])
@pytest.mark.parametrize("seen", [None, STARTING, RUNNING, STOPPING, ENDED, FAILED])
@pytest.mark.parametrize("reported", [NOTHING, SAID_STARTED, SAID_ALL, SETTLED])
def test_a_start_is_never_repeated_and_an_end_never_reported_twice(
    wanted: Assignment | None, seen: Seen | None, reported: Reported
) -> None:
    actions = reconcile(wanted, seen, reported, rebooted_at=0)

    if seen is not None or reported.started or reported.exited:
        assert not any(isinstance(action, Start) for action in actions)
    if reported.exited:
        assert not any(isinstance(action, ReportExited | ReportStarted) for action in actions)
