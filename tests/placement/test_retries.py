"""What ends an attempt, and whether the job is tried again."""

import pytest

from headrace.events import tag_of
from headrace.events.asked import Accelerator, Gang, Retry, Role
from headrace.events.gangs import GangPlaced, GangReleased
from headrace.events.jobs import JobFinished, JobRetries
from headrace.events.nodes import NodeFilled
from headrace.placement.decide import DECIDER
from headrace.placement.end_rules import REQUEUED_APART_US
from headrace.placement.explain_rules import explain
from headrace.placement.port_rules import SKIPPED

SECOND_US = 1_000_000
GB = 10**9


def tags(events):
    return [tag_of(event).removesuffix(".v1") for event in events]


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def begins(history, job, **fields):
    history.job(job, **fields)
    history.settled()
    history.starts(job)
    history.settled()


def rests_over(history):
    """Time passes until placement wants to be woken."""
    history.now_us = max(history.now_us, DECIDER.wakeup(history.state))
    return history.settled()


def retry(*on, attempts=3, backoff_s=0):
    return Retry(on=on, attempts=attempts, backoff_us=backoff_s * SECOND_US)


@pytest.mark.parametrize(
    ("on", "end", "reason"),
    [
        ("error", {"exit_code": 3}, "error"),
        ("oom", {"reason": "oom", "exit_code": 137}, "oom"),
        ("oom", {"reason": "over-share", "exit_code": 137}, "out-of-memory"),
        ("oom", {"reason": "gpu-oom", "exit_code": 1}, "out-of-memory"),
        ("node-lost", {"reason": "lost", "exit_code": 137}, "node-lost"),
        ("setup", {"reason": "setup", "exit_code": 1}, "setup"),
        ("setup", {"reason": "start-failed", "exit_code": 127}, "start-failed"),
    ],
)
def test_a_job_is_tried_again_after_the_ends_it_names_until_its_attempts_are_used_up(
    history, on, end, reason
):
    begins(history, "a", retry=retry(on))
    for attempt in (2, 3):
        history.exits("a", **end)
        released, placed = history.settled()
        assert (released.again, released.reason) == (True, reason)
        assert (placed.attempt, history.state.jobs["a"].tries) == (attempt, attempt - 1)
        history.starts("a")
        history.settled()
    history.exits("a", **end)
    (finished,) = of(JobFinished, history.settled())
    assert (finished.outcome, finished.reason, finished.attempt) == ("failed", reason, 3)
    assert history.state.usage["default"].milli == 0


def test_a_job_goes_on_after_its_limit_where_it_says_so(history):
    begins(history, "a", retry=retry("timeout", attempts=2), max_duration_us=60 * SECOND_US)
    history.exits("a", reason="stopped", exit_code=124)
    released, _ = history.settled()
    assert (released.again, released.reason) == (True, "timeout")
    history.starts("a")
    history.settled()
    history.exits("a", reason="stopped", exit_code=124)
    (finished,) = of(JobFinished, history.settled())
    assert (finished.outcome, finished.reason, finished.attempt) == ("failed", "timeout", 2)


@pytest.mark.parametrize("code", [0, 124])
def test_a_job_that_asks_for_another_attempt_has_it_whatever_its_exit_code(history, code):
    begins(history, "a", max_duration_us=60 * SECOND_US)
    history.now_us += REQUEUED_APART_US
    history.exits("a", reason="requeued", exit_code=code)
    released, placed = history.settled()
    assert (released.again, released.reason, placed.attempt) == (True, "requeued", 2)
    job = history.state.jobs["a"]
    assert (job.requeues, job.tries, job.lost) == (1, 0, 0)
    history.starts("a")
    history.settled()
    job.requeues = history.state.setting("requeues_max")
    history.exits("a", reason="requeued", exit_code=code)
    (finished,) = of(JobFinished, history.settled())
    assert (finished.outcome, finished.reason) == ("failed", "requeued")


def test_attempts_that_ask_for_the_next_begin_some_seconds_apart(history):
    begins(history, "a")
    begun_us = history.now_us
    history.now_us += 2 * SECOND_US
    history.exits("a", reason="requeued", exit_code=0)
    (released,) = history.settled()
    assert abs(released.rests_until_us - begun_us - REQUEUED_APART_US) < SECOND_US
    assert tags(rests_over(history)) == ["job.retries", "gang.placed"]


def test_who_is_cancelled_is_not_requeued(history):
    begins(history, "a")
    history.cancel("a")
    history.settled()
    history.exits("a", reason="requeued", exit_code=143)
    assert history.settled()[-1].outcome == "cancelled"


def test_what_a_job_does_not_name_ends_it(history):
    begins(history, "a", retry=retry("oom"))
    history.exits("a", exit_code=3)
    (finished,) = of(JobFinished, history.settled())
    assert (finished.outcome, finished.reason, finished.exit_code) == ("failed", "error", 3)


def test_being_preempted_is_never_an_attempt_used_up(history):
    begins(history, "a", retry=retry("error", "node-lost", attempts=2), gpus=8000, nodes=2)
    for number in range(3):
        history.job(f"b{number}", gpus=8000, nodes=2, priority=70)
        history.settled()
        history.exits("a", reason="stopped", exit_code=143)
        released = of(GangReleased, history.settled())[0]
        assert (released.again, released.reason, released.rests_until_us) == (True, "preempted", 0)
        history.starts(f"b{number}")
        history.exits(f"b{number}")
        history.settled()
        history.starts("a")
        history.settled()
    assert history.state.jobs["a"].tries == 0
    history.exits("a", exit_code=1)
    assert tags(history.settled())[:1] == ["gang.released"]
    assert history.state.jobs["a"].tries == 1


def test_what_machines_lose_is_tried_again_a_few_times_without_being_asked_for(history):
    begins(history, "a")
    for _ in range(3):
        history.exits("a", reason="lost", exit_code=137)
        assert tags(history.settled()) == ["gang.released", "gang.placed"]
        history.starts("a")
        history.settled()
    history.exits("a", reason="lost", exit_code=137)
    (finished,) = of(JobFinished, history.settled())
    assert (finished.reason, finished.node) == ("node-lost", "n1")


def test_a_job_rests_before_it_is_tried_again_and_then_twice_as_long(history):
    begins(history, "a", retry=retry("error", backoff_s=30))
    history.exits("a", exit_code=1)
    ended_us = history.now_us
    (released,) = history.settled()
    assert released.rests_until_us == ended_us + 30 * SECOND_US
    text = explain(history.state, "a", history.now_us).text
    assert text == "attempt 1 ended (error); tried again in 30 s, 1 of 3 used up"
    history.job("b")
    assert tags(history.settled()) == ["gang.placed"]
    history.cut()
    assert history.settled() == []
    assert DECIDER.wakeup(history.state) == released.rests_until_us
    assert tags(rests_over(history)) == ["job.retries", "gang.placed"]
    history.starts("a")
    history.settled()
    history.exits("a", exit_code=1)
    ended_us = history.now_us
    assert history.settled()[0].rests_until_us == ended_us + 60 * SECOND_US


def test_a_job_that_rests_can_be_cancelled_and_never_retries(history):
    begins(history, "a", retry=retry("error", backoff_s=30))
    history.exits("a", exit_code=1)
    history.settled()
    history.cancel("a")
    history.now_us += 40 * SECOND_US
    events = history.settled()
    assert of(JobRetries, events) == []
    assert [event.outcome for event in of(JobFinished, events)] == ["cancelled"]
    assert history.state.resting == {}


def two_sizes(history):
    history.node("n1", gpus=1, model="A100-40GB")
    history.node("n2", gpus=1, model="H100-80GB")
    history.queue("default")
    return (Accelerator(milli=1000, model="A100"), Accelerator(milli=1000, model="H100"))


def test_a_job_that_ran_out_of_a_gpus_memory_moves_on_to_the_next_kind_it_names(empty_history):
    history = empty_history
    kinds = two_sizes(history)
    begins(history, "a", gang=Gang(accelerators=kinds), retry=retry("oom"))
    assert history.placed("a").workers[0].node == "n1"
    history.exits("a", reason="over-share", exit_code=137)
    released, placed = history.settled()
    assert (released.outgrown_role, released.outgrown) == ("", kinds[:1])
    assert placed.workers[0].node == "n2"
    history.starts("a")
    history.settled()
    history.exits("a", reason="over-share", exit_code=137)
    released, placed = history.settled()  # there is nothing larger: where it was, once more
    assert (released.outgrown, placed.workers[0].node) == ((), "n2")


def test_a_job_that_ran_out_of_its_nodes_memory_keeps_its_choice_of_gpus(empty_history):
    history = empty_history
    kinds = two_sizes(history)
    begins(history, "a", gang=Gang(accelerators=kinds), retry=retry("oom"))
    history.exits("a", reason="oom", exit_code=137)
    released, placed = history.settled()
    assert (released.outgrown, placed.workers[0].node) == ((), "n1")


def test_more_of_the_same_gpus_is_larger_too(history):
    kinds = (Accelerator(milli=1000), Accelerator(milli=2000))
    begins(history, "a", gang=Gang(accelerators=kinds), retry=retry("oom"))
    history.exits("a", reason="gpu-oom", exit_code=1)
    released, placed = history.settled()
    assert released.outgrown == kinds[:1]
    assert len(placed.workers[0].devices) == 2


def test_only_the_role_that_ran_out_of_memory_moves_on(empty_history):
    history = empty_history
    kinds = two_sizes(history)
    history.node("n3", gpus=1, model="A100-40GB")
    roles = (Role(name="big", accelerators=kinds), Role(name="small", accelerators=kinds[:1]))
    gang = Gang(nodes=2, roles=roles)
    begins(history, "a", gang=gang, retry=retry("oom"))
    history.exits("a", ranks=[0], reason="over-share", exit_code=137)
    history.settled()
    history.exits("a", ranks=[1], reason="stopped", exit_code=143)
    placed = of(GangPlaced, history.settled())[0]
    models = {worker.role: worker.node for worker in placed.workers}
    assert models["big"] == "n2"
    assert models["small"] in ("n1", "n3")


def test_the_rank_that_failed_first_tells_why_not_those_that_ended_because_of_it(history):
    begins(history, "a", nodes=2)
    history.exits("a", ranks=[1], exit_code=1, message="peer closed the connection", at_us=50_200)
    history.exits("a", ranks=[0], exit_code=3, message="loss is nan", at_us=50_100)
    (finished,) = of(JobFinished, history.settled())
    assert (finished.rank, finished.exit_code, finished.message) == (0, 3, "loss is nan")
    assert finished.node == history.placed("a").workers[0].node


def test_clocks_that_are_far_apart_tell_nothing_about_who_was_first(history):
    begins(history, "a", nodes=2)
    history.exits("a", ranks=[1], exit_code=1, message="first", at_us=50_000)
    history.now_us += 5 * SECOND_US
    history.exits("a", ranks=[0], exit_code=3, message="later", at_us=10)
    (finished,) = of(JobFinished, history.settled())
    assert (finished.rank, finished.message) == (1, "first")


def test_a_lost_machine_tells_more_than_the_peers_that_missed_it(history):
    begins(history, "a", nodes=2)
    history.exits("a", ranks=[0], exit_code=1, message="connection reset")
    history.settled()
    history.exits("a", ranks=[1], reason="lost", exit_code=137)
    released = of(GangReleased, history.settled())[0]
    assert (released.again, released.reason) == (True, "node-lost")


def test_ports_that_somebody_outside_has_are_not_given_again(history):
    begins(history, "a")
    first = history.placed("a").workers[0]
    history.exits("a", reason="ports-taken", exit_code=126, message="port 20000 is taken")
    released, placed = history.settled()
    assert (released.again, released.reason) == (True, "ports-taken")
    assert placed.workers[0].port == first.port + SKIPPED


def test_a_node_without_room_for_a_start_is_left_until_its_disk_is_measured(empty_history):
    history = empty_history
    history.node("n1", gpus=1)
    history.queue("default")
    begins(history, "a")
    history.exits("a", reason="disk-full", exit_code=126, message="No space left on device")
    (released,) = history.settled()
    assert (released.again, released.reason) == (True, "disk-full")

    history.given(NodeFilled(node="n1", used_permille=800, too_full=False))
    (placed,) = of(GangPlaced, history.settled())
    assert placed.job == "a"


def test_nodes_of_one_machine_go_through_ports_of_their_own(empty_history):
    history = empty_history
    for name, first in (("n1", 20_000), ("n2", 20_500)):
        ports = {"port_first": first, "port_last": first + 499}
        history.node(name, gpus=1, address="10.0.0.1", **ports)
    history.queue("default")
    begins(history, "a", nodes=2)
    first = history.placed("a").workers
    history.exits("a", ranks=[0], reason="ports-taken", exit_code=126, message="port is taken")
    history.settled()
    history.exits("a", ranks=[1], reason="stopped", exit_code=143)
    (placed,) = of(GangPlaced, history.settled())
    assert [w.port for w in placed.workers] == [
        first[0].port + SKIPPED,
        first[1].port + first[1].ports,
    ]
