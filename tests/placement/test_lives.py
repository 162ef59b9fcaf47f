"""The life of a job after it may compete: placed, started, stopped, released, finished."""

import pytest

from headrace.events import Refusal, tag_of
from headrace.events.gangs import GangPlaced, GangReleased, GuardTripped
from headrace.events.jobs import JobFinished, JobHeld
from headrace.events.nodes import NodeChangeRequested, NodeFilled, NodeHeard, NodeSilent
from headrace.placement.decide import DECIDER
from headrace.placement.explain_rules import explain


def tags(events):
    return [tag_of(event).removesuffix(".v1") for event in events]


def booked(history):
    return sum(d.used_milli for n in history.state.nodes.values() for d in n.devices)


def test_a_job_is_placed_started_released_and_finished(history):
    history.job("a")
    (placed,) = history.settled()
    assert isinstance(placed, GangPlaced)
    assert (placed.attempt, placed.milli, len(placed.workers)) == (1, 1000, 1)
    assert placed.act.rule == "fits"
    history.starts("a")
    assert tags(history.settled()) == ["job.started"]
    history.exits("a")
    released, finished = history.settled()
    assert released == GangReleased(
        job="a", project="default", attempt=1, shares=placed.workers[0].devices, milli=1000,
        held_us=released.held_us,
    )  # fmt: skip
    assert released.held_us > 0
    assert (finished.outcome, finished.exit_code, finished.attempt) == ("succeeded", 0, 1)
    assert booked(history) == 0
    assert not history.state.jobs
    assert not history.state.ports["10.0.0.1"]


def test_start_and_exit_heard_together_are_decided_together(history):
    history.job("a")
    history.settled()
    history.starts("a")
    history.exits("a")
    assert tags(history.decided()) == ["job.started", "gang.released", "job.finished"]


def test_a_failed_command_ends_the_job_with_its_code(history):
    history.job("a")
    history.settled()
    history.starts("a")
    history.exits("a", exit_code=3, message="no data")
    finished = history.settled()[-1]
    assert (finished.outcome, finished.reason, finished.exit_code, finished.message) == (
        "failed", "error", 3, "no data",
    )  # fmt: skip


def test_one_failed_worker_stops_the_others_and_names_its_own_code(history):
    history.job("a", nodes=2)
    history.settled()
    history.starts("a")
    history.settled()
    history.exits("a", ranks=[1], exit_code=9)
    (evicted,) = history.settled()
    assert (evicted.reason, evicted.act.numbers) == ("worker-failed", {"rank": 1, "exit_code": 9})
    assert booked(history) == 2000
    history.exits("a", ranks=[0], reason="stopped", exit_code=143)
    finished = history.settled()[-1]
    assert (finished.outcome, finished.reason, finished.exit_code) == ("failed", "error", 9)


def test_nothing_is_released_before_every_worker_has_gone(history):
    history.job("a", nodes=2)
    history.settled()
    history.starts("a")
    history.settled()
    history.exits("a", ranks=[0])
    assert history.settled() == []
    assert booked(history) == 2000


def test_a_waiting_job_is_cancelled_at_once(history):
    history.job("a", gpus=9000)
    history.settled()
    history.cancel("a")
    (finished,) = history.settled()
    assert (finished.outcome, finished.reason, finished.attempt) == ("cancelled", "cancelled", 0)


def test_a_running_job_is_stopped_first_and_cancelled_when_it_has_gone(history):
    history.job("a")
    history.settled()
    history.starts("a")
    history.settled()
    history.cancel("a")
    (evicted,) = history.settled()
    assert evicted.reason == "cancelled"
    history.exits("a", reason="stopped", exit_code=143)
    assert history.settled()[-1].outcome == "cancelled"


def test_a_lost_attempt_is_tried_again_until_too_many_were_lost(history):
    history.job("a")
    for attempt in (1, 2, 3, 4):
        assert tags(history.settled())[-1] == "gang.placed"
        assert history.placed("a").attempt == attempt
        history.starts("a")
        history.exits("a", reason="lost")
    finished = history.settled()[-1]
    assert isinstance(finished, JobFinished)
    assert (finished.outcome, finished.reason, finished.attempt) == ("failed", "node-lost", 4)


def test_a_job_that_cannot_start_is_not_tried_again(history):
    history.job("a")
    history.settled()
    history.exits("a", reason="start-failed", exit_code=127, message="no such command")
    finished = history.settled()[-1]
    assert (finished.outcome, finished.reason, finished.message) == (
        "failed", "start-failed", "no such command",
    )  # fmt: skip


def test_a_worker_stopped_by_somebody_else_counts_as_lost(history):
    history.job("a")
    history.settled()
    history.exits("a", reason="stopped", exit_code=143)
    assert tags(history.settled()) == ["gang.released", "gang.placed"]
    assert history.state.jobs["a"].lost == 1


def test_late_reports_of_an_earlier_attempt_change_nothing(history):
    history.job("a")
    history.settled()
    history.exits("a", reason="lost")
    history.settled()
    history.starts("a", attempt=1)
    history.exits("a", attempt=1)
    assert history.settled() == []
    assert history.placed("a").attempt == 2


def test_a_report_from_a_node_without_that_worker_changes_nothing(history):
    history.job("a")
    history.settled()
    forged = history.placed("a")
    other = "n2" if forged.workers[0].node == "n1" else "n1"
    from headrace.events.attempts import AttemptExited

    history.given(
        AttemptExited(
            job="a", project="default", attempt=1, rank=0, node=other, incarnation="j1",
            report=1, reason="exited",
        )
    )  # fmt: skip
    assert history.settled() == []


def test_a_node_that_was_restarted_runs_nothing_of_what_was_there(history):
    history.job("a", gpus=8000)
    history.settled()
    history.starts("a")
    history.settled()
    node = history.placed("a").workers[0].node
    history.node(node, boot="boot-1")
    assert history.settled() == []
    history.node(node, boot="boot-2")
    assert tags(history.settled()) == ["gang.released", "gang.placed"]


def test_a_silent_node_keeps_its_work_and_gets_no_more(empty_history):
    history = empty_history
    history.node("n1")
    history.queue("default")
    history.job("a")
    history.settled()
    history.given(NodeSilent(node="n1"))
    history.job("b")
    assert history.settled() == []
    assert booked(history) == 1000
    assert "silent" in explain(history.state, "a", history.now_us).text
    history.given(NodeHeard(node="n1"))
    assert tags(history.settled()) == ["gang.placed"]


def test_fencing_is_proof_and_cordons(empty_history):
    history = empty_history
    history.node("n1")
    history.queue("default")
    history.job("a")
    history.settled()
    history.given(NodeSilent(node="n1"))
    position = history.given(NodeChangeRequested(node="n1", change="fence"))
    drafts = DECIDER.decide(history.state, history.now_us)
    assert [draft.causation for draft in drafts] == [position]
    assert tags(history.settled()) == ["node.changed", "gang.released"]
    history.given(NodeHeard(node="n1"))
    assert history.settled() == []
    history.given(NodeChangeRequested(node="n1", change="uncordon"))
    assert tags(history.settled()) == ["node.changed", "gang.placed"]


@pytest.mark.parametrize(
    ("node", "change", "field"),
    [("n9", "cordon", "node"), ("n1", "melt", "change"), ("n1", "fence", "node")],
)
def test_a_change_that_makes_no_sense_is_refused(history, node, change, field):
    history.given(NodeChangeRequested(node=node, change=change))
    (refused,) = history.settled()
    assert isinstance(refused.refusal, Refusal)
    assert refused.refusal.field == field


def test_a_device_whose_counter_refused_takes_no_more_work(empty_history):
    history = empty_history
    history.node("n1", gpus=1)
    history.queue("default")
    history.given(GuardTripped(device="n1-gpu0", job="x", attempt=1))
    history.job("a")
    assert history.settled() == []
    history.given(NodeChangeRequested(node="n1", change="uncordon"))
    assert tags(history.settled()) == ["node.changed", "gang.placed"]


def test_a_held_job_waits_until_it_is_eligible(history):
    history.job("a", eligible=False)
    history.given(JobHeld(job="a", project="default", reason="no room"))
    assert history.settled() == []
    assert explain(history.state, "a", history.now_us).text == "no room"


def test_gangs_at_one_address_never_share_a_port(empty_history):
    history = empty_history
    for name in ("n1", "n2"):
        history.node(name, gpus=2, address="127.0.0.1", port_first=5000, port_last=5008)
    history.queue("default")
    for number in range(4):
        history.job(f"j{number}")
    ports = [event.port for event in history.settled()]
    assert sorted(ports) == [5000, 5002, 5004, 5006]
    history.exits("j1")
    history.job("next")
    assert history.settled()[-1].port == history.placed("j1").port


def test_a_node_whose_disk_is_full_keeps_its_work_and_gets_no_more(empty_history):
    history = empty_history
    history.node("n1", gpus=1)
    history.queue("default")
    history.job("a", gpus=500)
    history.settled()
    history.given(NodeFilled(node="n1", used_permille=912, too_full=True))
    history.job("b", gpus=500)
    assert history.settled() == []
    assert explain(history.state, "b", history.now_us).excluded == {"its disk is full": 1}
    history.node("n1", gpus=1)  # it says again what it has
    assert history.settled() == []
    history.given(NodeFilled(node="n1", used_permille=870, too_full=False))
    assert tags(history.settled()) == ["gang.placed"]
