"""The checker: a good history passes, and every promise broken is told by its name."""

from __future__ import annotations

import msgspec
from tests.verification.histories import (
    ACT,
    ADMITTED,
    GOOD,
    RUNNING,
    P,
    accounted,
    admitted,
    begun,
    broken,
    eligible,
    entries,
    exited,
    finished,
    joined,
    placed,
    queue,
    released,
    requested,
    started,
)

from headrace.events import Header
from headrace.events.accounts import AccountAssigned
from headrace.events.gangs import Act, GangEvicted
from headrace.events.jobs import JobCancelling, JobHeld
from headrace.events.nodes import NodeChanged
from headrace.events.platform import LogBegan, ServiceLed
from headrace.events.queues import Allowance, QueueConfigured
from headrace.verification import Checker, check_accepted

EVICTED = GangEvicted(job="a", project=P, attempt=1, reason="reclaimed", act=ACT)
CANCELLING = JobCancelling(job="a", project=P)


def on(basis: int, decided_at_us: int = 0) -> Header:
    return Header(basis=basis, decided_at_us=decided_at_us, count=1)


def test_a_good_history_has_nothing_against_it() -> None:
    assert broken(*GOOD) == []


def test_a_job_may_run_again_after_it_was_released() -> None:
    again = (*RUNNING, EVICTED, exited(exit_code=143), released(again=True))

    assert broken(*again, accounted(), placed(attempt=2), started(attempt=2, report=3)) == []


def test_who_was_asked_to_save_itself_may_be_told_once_to_stop_at_once() -> None:
    asked = msgspec.structs.replace(EVICTED, reason="cancelled", way="signal")
    at_once = msgspec.structs.replace(EVICTED, reason="cancelled", act=Act(rule="now"))

    assert broken(*RUNNING, asked, at_once) == []
    assert broken(*RUNNING, asked, at_once, at_once) == ["I4"]
    assert broken(*RUNNING, asked, asked) == ["I4"]
    assert broken(*RUNNING, EVICTED, at_once) == ["I4"]


# I1


def test_work_that_was_done_is_not_done_again() -> None:
    assert "I4" in broken(*RUNNING, EVICTED, exited(), released(again=True))
    assert "I4" in broken(*RUNNING, exited(), released(again=True))


def test_a_device_is_never_booked_above_its_capacity() -> None:
    second = (requested("b"), admitted("b"), eligible("b"))

    assert broken(*RUNNING, *second, placed("b")) == ["I1"]
    assert broken(*RUNNING, *second, placed("b", milli=1)) == ["I1"]
    assert broken(*RUNNING, *second, placed("b", where="n1/g2")) == []


def test_a_device_is_one_nodes_until_that_has_it_no_more() -> None:
    gone = NodeChanged(node="n1", change="delete")

    assert broken(joined("n1"), joined("n2")) == ["I1", "I1"]
    assert broken(joined("n1"), joined("n1", ["g2"]), joined("n2", ["g1"])) == []
    assert broken(joined("n1"), gone, joined("n2")) == []


def test_shares_of_a_device_may_fill_it() -> None:
    second = (requested("b"), admitted("b"), eligible("b"))

    assert broken(*ADMITTED, placed(milli=400), *second, placed("b", milli=600)) == []
    assert broken(*ADMITTED, placed(milli=400), *second, placed("b", milli=601)) == ["I1"]


def test_a_device_is_booked_on_the_node_that_has_it() -> None:
    assert broken(*ADMITTED, placed(where="n2/g1")) == ["I1"]


def test_what_is_given_back_was_booked() -> None:
    assert broken(*RUNNING, exited(), released(devices="g2")) == ["I1"]
    assert broken(*RUNNING, exited(), released(milli=900)) == ["I1"]


# I2, I3


def test_a_job_has_one_live_attempt() -> None:
    assert broken(*RUNNING, placed(attempt=2, where="n1/g2")) == ["I2"]


def test_attempts_rise_by_one() -> None:
    assert broken(*ADMITTED, placed(attempt=2)) == ["I3"]


def test_nothing_runs_that_was_never_placed() -> None:
    assert broken(*ADMITTED, started()) == ["I3"]


def test_a_report_is_recorded_once() -> None:
    assert broken(*RUNNING, started()) == ["I3"]


def test_a_report_comes_from_the_node_of_the_worker() -> None:
    elsewhere = placed(where="n2/h1")

    assert broken(*ADMITTED, joined("n2", ["h1"]), elsewhere, started()) == ["I3"]


# I4


def test_a_job_is_admitted_once_and_after_it_was_asked_for() -> None:
    assert broken(admitted()) == ["I4"]
    assert broken(requested(), admitted(), admitted()) == ["I4"]


def test_a_job_ends_once() -> None:
    assert broken(*GOOD, finished()) == ["I4"]


def test_nothing_is_decided_for_a_job_known_to_have_ended() -> None:
    assert broken(*GOOD, eligible()) == ["I4"]
    assert broken(*GOOD, CANCELLING) == ["I4"]


def test_what_another_service_had_not_read_is_a_race_and_no_violation() -> None:
    before_the_end = on(basis=len(GOOD) - 2)

    assert broken(*GOOD, (CANCELLING, before_the_end)) == []


def test_a_job_is_placed_while_it_may_compete() -> None:
    held = JobHeld(job="a", project=P, reason="quota")

    assert broken(requested(), joined(), admitted(), placed()) == ["I4"]
    assert broken(*ADMITTED, held, placed()) == ["I4"]
    assert broken(*ADMITTED, held, (placed(), on(basis=4))) == []


def test_a_job_that_is_to_end_is_not_placed() -> None:
    assert broken(*ADMITTED, CANCELLING, placed()) == ["I4"]
    assert broken(*ADMITTED, CANCELLING, (placed(), on(basis=4))) == []


def test_a_job_begins_when_every_worker_has_started() -> None:
    assert broken(*ADMITTED, placed(), begun()) == ["I4"]


def test_devices_are_released_on_proof_only() -> None:
    assert broken(*RUNNING, EVICTED, released()) == ["I4"]


def test_proof_must_be_known_when_it_is_decided_on() -> None:
    assert broken(*RUNNING, exited(), (released(), on(basis=len(RUNNING)))) == ["I4"]


def test_another_boot_is_proof() -> None:
    assert broken(*RUNNING, joined(boot="b2"), released()) == []


def test_the_same_boot_is_no_proof() -> None:
    assert broken(*RUNNING, joined(), released()) == ["I4"]


def test_an_operators_fence_is_proof() -> None:
    fenced = NodeChanged(node="n1", change="fence")

    assert broken(*RUNNING, fenced, released()) == []
    assert broken(*RUNNING, NodeChanged(node="n1", change="cordon"), released()) == ["I4"]


def test_a_fork_is_proof_and_a_restored_log_is_none() -> None:
    began = LogBegan(lineage="l", epoch=2, how="forked", before="k")

    assert broken(*RUNNING, began, released()) == []
    restored = msgspec.structs.replace(began, how="restored")
    assert broken(*RUNNING, restored, released()) == ["I4"]


def test_a_job_does_not_end_while_it_holds_devices() -> None:
    assert broken(*RUNNING, exited(), finished()) == ["I4"]


def test_an_attempt_is_accounted_for_once() -> None:
    assert broken(*GOOD, accounted()) == ["I4"]


def test_a_group_ends_after_its_tasks() -> None:
    group = (requested(), admitted(tasks=2))
    task = admitted("a/0", group="a")

    assert broken(*group, task, finished(outcome="cancelled", attempt=0)) == ["I4"]


def test_epochs_of_a_service_rise() -> None:
    led = [ServiceLed(service="quota", epoch=n, decision_version="v") for n in (1, 2, 2)]

    assert broken(*led[:2]) == []
    assert broken(*led) == ["I4"]


# I5


def test_a_queue_stays_within_its_limit_at_every_level() -> None:
    parent = queue("research", limit_milli=500)

    assert broken(*ADMITTED, queue(limit_milli=999), placed()) == ["I5"]
    assert broken(*ADMITTED, parent, queue(parent="research"), placed()) == ["I5"]
    assert broken(*ADMITTED, queue(limit_milli=1000), placed()) == []


def test_a_queue_stays_within_its_limit_of_a_type_at_every_level() -> None:
    def of(name: str, milli: int) -> dict[str, Allowance]:
        return {name: Allowance(limit_milli=milli)}

    parent = queue("research", per_type=of("H100", 500))

    assert broken(*ADMITTED, queue(per_type=of("H100", 999)), placed()) == ["I5"]
    assert broken(*ADMITTED, parent, queue(parent="research"), placed()) == ["I5"]
    assert broken(*ADMITTED, queue(per_type=of("H100", 1000)), placed()) == []
    assert broken(*ADMITTED, queue(per_type=of("A100", 0)), placed()) == []


def test_jobs_that_cannot_be_preempted_stay_within_the_quota_of_a_type_that_is_given() -> None:
    firm = (requested(), joined(), admitted(preemptible=False), eligible())

    def given(milli: int) -> QueueConfigured:
        return queue(quota_milli=-1, per_type={"H100": Allowance(quota_milli=milli)})

    assert broken(*firm, given(999), placed()) == ["I5"]
    assert broken(*firm, given(1000), placed()) == []
    assert broken(*firm, given(0), placed()) == []
    assert broken(*ADMITTED, given(999), placed()) == []


def test_a_limit_lowered_later_makes_no_violation_of_what_runs() -> None:
    assert broken(*ADMITTED, queue(), placed(), queue(limit_milli=0)) == []
    assert broken(*ADMITTED, queue(limit_milli=0), (placed(), on(basis=4))) == []


def test_jobs_that_cannot_be_preempted_stay_within_quota() -> None:
    firm = (requested(), joined(), admitted(preemptible=False), eligible())

    assert broken(*firm, queue(quota_milli=999), placed()) == ["I5"]
    assert broken(*firm, queue(quota_milli=1000), placed()) == []
    assert broken(*ADMITTED, queue(quota_milli=0), placed()) == []


# I6


def test_a_request_is_recorded_once() -> None:
    key = Header(project=P, request_source="/a", request_key="k1")
    others = Header(project=P, request_source="/b", request_key="k1")

    assert broken((requested(), key), (requested("b"), key)) == ["I6"]
    assert broken((requested(), key), (requested("b"), others)) == []


def test_an_accepted_request_is_in_the_log() -> None:
    checker = Checker()
    checker.check(entries([(requested(), Header(project=P, request_key="k1"))])[0])

    assert check_accepted(checker.requests, [(P, "", "k1")]) == []
    assert (
        len(check_accepted(checker.requests, [(P, "", "k2"), ("ads", "", "k1"), (P, "/b", "k1")]))
        == 3
    )


# I7


def test_a_gang_is_placed_whole() -> None:
    two = (requested(), joined(), admitted(nodes=2), eligible())

    assert broken(*two, placed()) == ["I7"]
    assert broken(*two, placed(where="n1/g1 n1/g2")) == []


def test_a_gang_short_of_a_worker_is_acted_on_in_time() -> None:
    two = (requested(), joined(), admitted(nodes=2), eligible(), placed(where="n1/g1 n1/g2"))
    short = (*two, started(), exited(exit_code=1))
    late = Header(basis=7, decided_at_us=120_000_000, count=1)
    other = NodeChanged(node="n2", change="cordon")

    assert broken(*short, (other, late)) == ["I7"]
    assert broken(*short, EVICTED, (other, late)) == []
    assert broken(*short, (other, on(basis=7, decided_at_us=30_000))) == []


def test_a_number_is_one_users_of_one_project_for_ever() -> None:
    def assigned(project: str, user: str, number: int) -> AccountAssigned:
        return AccountAssigned(project=project, user=user, account=number)

    first = assigned(P, "ada", 1)
    assert broken(first, assigned(P, "bob", 2), assigned("other", "ada", 3)) == []
    assert broken(first, assigned(P, "bob", 1)) == ["I17"]
    assert broken(first, assigned(P, "ada", 2)) == ["I17"]
    assert broken(assigned(P, "ada", 0)) == ["I17"]
