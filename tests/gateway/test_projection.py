import msgspec
import pytest
from tests.gateway.histories import (
    RUN,
    SECOND_US,
    SUCCEEDED,
    admitted,
    eligible,
    evicted,
    finished,
    folded,
    joined,
    placed,
    released,
    requested,
    started,
)

from headrace.events import Refusal
from headrace.events.jobs import JobCancelling, JobHeld, JobRefused
from headrace.events.nodes import DeviceFaulted, NodeChanged, NodeHeard, NodeSilent
from headrace.events.platform import UsageAccounted
from headrace.events.queues import Queue, QueueConfigured
from headrace.events.sweeps import SweepBest
from headrace.gateway import choosing, evolve, rows
from headrace.gateway.choosing import Wish


def states_along(*events):
    projection = folded()
    seen = []
    for event in events:
        folded(event, into=projection)
        job = projection.job("hello-a")
        seen.append(rows.state_of(job))
    return seen


def row_of(projection, job="hello-a", now_us=None):
    return rows.job_row(projection, projection.job(job), now_us or projection.at_us)


def test_a_job_is_in_every_state_it_goes_through():
    assert states_along(*SUCCEEDED) == [
        "submitted",
        "waiting",
        "waiting",
        "starting",
        "starting",
        "running",
        "running",
        "running",
        "succeeded",
    ]


def test_a_sweep_says_which_trial_is_the_best_until_and_after_it_has_ended():
    sweep = msgspec.structs.replace(requested(), trials=({}, {}), kind_of_group="sweep")
    best = SweepBest(
        job="hello-a", project="vision", trial="hello-a/1", metric="loss", goal="min", value="0.2",
        measured=1,
    )  # fmt: skip
    projection = folded(sweep, msgspec.structs.replace(admitted(), tasks=2), best)
    assert row_of(projection).why == "best so far hello-a/1 loss=0.2"
    ended = folded(sweep, msgspec.structs.replace(admitted(), tasks=2), finished(), best)
    assert row_of(ended).best == "hello-a/1 loss=0.2"


def test_a_reclaimed_job_stops_and_waits_again_and_says_for_whom():
    projection = folded(*RUN, evicted())
    assert row_of(projection).why == "reclaimed for big-b"
    assert row_of(projection).state == "stopping"
    folded(released(again=True), into=projection)
    row = row_of(projection)
    assert (row.state, row.evictions, row.held_milli) == ("waiting", 1, 0)


def test_a_refused_job_says_why_and_is_not_live():
    refusal = Refusal(field="nodes", value="4", rule="too many", instead="nodes: 2 fits")
    event = JobRefused(job="hello-a", project="vision", refusal=refusal)
    projection = folded(requested(), event)
    assert not projection.live
    assert row_of(projection).why == "nodes = 4 — too many; nodes: 2 fits"


def test_a_held_job_says_what_has_to_change_until_it_is_eligible():
    held = JobHeld(job="hello-a", project="vision", reason="vision holds its limit of 8 GPUs")
    projection = folded(requested(), admitted(), held)
    assert row_of(projection).why == held.reason
    folded(eligible(), into=projection)
    assert (row_of(projection).state, row_of(projection).why) == ("waiting", "")


def test_waiting_and_running_times_grow_until_the_job_ends():
    projection = folded(requested(), admitted())
    assert row_of(projection, now_us=5 * SECOND_US).waited_us == 4 * SECOND_US
    folded(placed(), started(), into=projection)
    running = row_of(projection, now_us=10 * SECOND_US)
    assert (running.waited_us, running.ran_us) == (2 * SECOND_US, 6 * SECOND_US)
    folded(finished(), into=projection)
    ended = row_of(projection, now_us=99 * SECOND_US)
    assert (ended.waited_us, ended.ran_us) == (2 * SECOND_US, 3 * SECOND_US)


def sweep(*events):
    trials = ({"lr": "1"}, {"lr": "2"}, {"lr": "3"})
    return folded(
        requested("lr-x", kind_of_group="sweep", trials=trials),
        admitted("lr-x", tasks=3, tasks_parallel=2),
        *(admitted(f"lr-x/{index}", group="lr-x", index=index) for index in range(3)),
        *events,
    )


def test_a_sweep_is_one_row_that_counts_its_tasks():
    projection = sweep(
        placed("lr-x/0"), started("lr-x/0"), placed("lr-x/1"), started("lr-x/1"), finished("lr-x/0")
    )
    listed = choosing.latest(projection, Wish(ended_max=10), 10)
    assert [job.job for job in listed] == ["lr-x"]
    row = row_of(projection, "lr-x")
    assert (row.state, row.kind) == ("running", "sweep")
    assert (row.tasks_running, row.tasks_ended, row.tasks) == (1, 1, 3)
    assert row.where == ["n1"]


def test_the_tasks_of_a_sweep_are_listed_by_their_group():
    listed = choosing.latest(sweep(), Wish(group="lr-x", ended_max=0), 10)
    assert [job.job for job in listed] == ["lr-x/0", "lr-x/1", "lr-x/2"]


def test_a_cancelled_job_says_by_whom():
    event = JobCancelling(job="hello-a", project="vision", user="ada")
    row = row_of(folded(*RUN, event))
    assert (row.state, row.why) == ("stopping", "cancelled by ada")


def test_devices_know_their_holders_until_they_are_released():
    projection = folded(joined(), *RUN)
    node = rows.node_rows(projection, ["n1"])[0]
    assert (node.gpus, node.held_milli, node.jobs) == (2, 500, ["hello-a"])
    assert node.devices[0].held == {"hello-a": 500}
    folded(released(), into=projection)
    assert rows.node_rows(projection, ["n1"])[0].held_milli == 0


def test_a_node_is_ready_silent_cordoned_or_fenced():
    projection = folded(joined())

    def state_after(event):
        folded(event, into=projection)
        return rows.node_rows(projection, ["n1"])[0].state

    assert state_after(NodeSilent(node="n1", silent_us=5)) == "silent"
    assert state_after(NodeHeard(node="n1")) == "ready"
    assert state_after(NodeChanged(node="n1", change="cordon")) == "cordoned"
    assert state_after(NodeChanged(node="n1", change="fence")) == "fenced"
    assert state_after(NodeChanged(node="n1", change="uncordon")) == "ready"


def test_a_node_tells_what_happened_to_its_devices_until_it_is_over():
    projection = folded(joined())

    def fault_after(event):
        folded(event, into=projection)
        return rows.node_rows(projection, ["n1"])[0].devices[0].fault

    said = joined()
    fault = DeviceFaulted(
        node="n1", device=said.devices[0].device, incarnation="j", report=1, action="drain",
        text="XID 79: it has gone",
    )  # fmt: skip
    assert fault_after(fault) == "XID 79: it has gone"
    assert fault_after(said) == "XID 79: it has gone"
    assert fault_after(NodeChanged(node="n1", change="cordon")) == "XID 79: it has gone"
    assert fault_after(NodeChanged(node="n1", change="uncordon")) == ""
    restart = msgspec.structs.replace(fault, action="restart")
    assert fault_after(restart) == ""


def test_a_department_holds_what_its_projects_hold():
    research = Queue(queue="research", kind="department", quota_milli=16_000)
    vision = Queue(queue="vision", kind="project", parent="research", quota_milli=8_000)
    projection = folded(
        QueueConfigured(name="vision", queue=vision, change="created"),
        QueueConfigured(name="research", queue=research, change="created"),
        *RUN,
        UsageAccounted(job="x", project="vision", attempt=1, milli=500, held_us=4 * SECOND_US),
    )
    found = rows.project_rows(projection)
    assert [row.project for row in found] == ["research", "vision"]
    assert [row.held_milli for row in found] == [500, 500]
    assert [row.gpu_us for row in found] == [2 * SECOND_US, 2 * SECOND_US]
    assert [(row.running, row.waiting) for row in found] == [(1, 0), (1, 0)]


def test_only_so_many_ended_jobs_are_kept(monkeypatch):
    monkeypatch.setattr(evolve, "ENDED_JOBS_MAX", 2)
    projection = folded()
    for name in ("a-1", "b-2", "c-3"):
        folded(requested(name), admitted(name), finished(name), into=projection)
    assert list(projection.ended) == ["b-2", "c-3"]


@pytest.mark.security
def test_one_projects_ended_jobs_push_no_other_projects_out(monkeypatch):
    monkeypatch.setattr(evolve, "ENDED_JOBS_MAX", 3)
    projection = folded()
    quiet = [requested("q-1", project="ads"), admitted("q-1", project="ads")]
    folded(*quiet, finished("q-1", project="ads"), into=projection)
    for number in range(9):
        name = f"n-{number}"
        folded(requested(name), admitted(name), finished(name), into=projection)
    assert list(projection.ended) == ["q-1", "n-7", "n-8"]


def test_a_page_has_the_latest_jobs_oldest_first_and_a_cursor_goes_back():
    projection = folded()
    for name in ("a-1", "b-2", "c-3", "d-4"):
        folded(requested(name), into=projection)
    page = choosing.latest(projection, Wish(ended_max=0), 2)
    assert [job.job for job in page] == ["c-3", "d-4"]
    earlier = choosing.latest(projection, Wish(ended_max=0), 2, page[0].position)
    assert [job.job for job in earlier] == ["a-1", "b-2"]


def test_ended_jobs_are_shown_only_as_many_as_wanted():
    projection = folded()
    for name in ("a-1", "b-2", "c-3"):
        folded(requested(name), finished(name), into=projection)
    assert [job.job for job in choosing.latest(projection, Wish(ended_max=2), 9)] == ["b-2", "c-3"]
    assert choosing.latest(projection, Wish(state="live", ended_max=2), 9) == []


def test_what_nobody_asked_for_changes_nothing():
    projection = folded(placed("ghost-1"), evicted("ghost-1"), released("ghost-1"))
    assert not projection.live
    assert not projection.ended
    assert projection.held == {}


def test_a_warning_is_why_a_job_waits_until_it_runs():
    events = (requested(), admitted(warning="cannot run today: no node has 40 GPUs"), eligible())
    projection = folded(*events)
    assert row_of(projection).why == "cannot run today: no node has 40 GPUs"
    assert row_of(folded(placed(), into=projection)).why == ""
