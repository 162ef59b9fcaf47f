"""Sweeps and arrays: how a group follows its tasks."""

from headrace.events.asked import Gang
from headrace.events.gangs import GangEvicted
from headrace.events.jobs import JobAdmitted, JobFinished


def group_of(tasks, **fields):
    return JobAdmitted(
        job="s", project="default", name="s", user="ada", gang=Gang(), requested_at=7, priority=40,
        tasks=tasks, **fields,
    )  # fmt: skip


def admit_group(history, tasks, **fields):
    history.given(group_of(tasks, **fields))
    for index in range(tasks):
        history.job(f"s/{index}", group="s", index=index)


def test_a_group_finishes_after_its_last_task_and_counts_failures(history):
    admit_group(history, 3)
    history.settled()
    for index in (0, 1):
        history.exits(f"s/{index}")
    assert "s" not in [e.job for e in history.settled()]
    history.exits("s/2", exit_code=4)
    finished = history.settled()[-1]
    assert (finished.job, finished.outcome, finished.exit_code) == ("s", "failed", 4)
    assert finished.message == "2 succeeded, 1 failed, 0 cancelled; first failed: s/2"
    assert not history.state.groups


def test_too_many_failures_cancel_the_rest_of_a_group(history):
    admit_group(history, 20, stop_after_failures=2)
    history.settled()
    history.exits("s/0", exit_code=1)
    history.exits("s/1", exit_code=1)
    events = history.settled()
    cancelled = [e.job for e in events if isinstance(e, JobFinished) and e.outcome == "cancelled"]
    stopped = {e.job for e in events if isinstance(e, GangEvicted)}
    assert set(cancelled) == {f"s/{i}" for i in range(16, 20)}
    assert stopped == {f"s/{i}" for i in range(2, 16)}
    for job in sorted(stopped):
        history.exits(job, reason="stopped", exit_code=143)
    finished = history.settled()[-1]
    assert (finished.job, finished.outcome, finished.reason) == (
        "s", "failed", "stop-after-failures",
    )  # fmt: skip


def test_a_task_that_crosses_with_the_end_of_its_group_ends_too(history):
    history.given(group_of(2))
    history.cancel("s")
    assert [e.job for e in history.settled()] == ["s"]
    history.job("s/1", group="s", index=1)
    (finished,) = history.settled()
    assert (finished.job, finished.outcome) == ("s/1", "cancelled")
