"""Gangs that grow and shrink: what the checker holds against them."""

from __future__ import annotations

from tests.verification.histories import (
    ACT,
    P,
    accounted,
    admitted,
    begun,
    broken,
    eligible,
    exited,
    finished,
    given_back,
    grown,
    joined,
    placed,
    queue,
    released,
    requested,
    shrunk,
    started,
)

from headrace.events import Header
from headrace.events.gangs import GangEvicted
from headrace.verification.lives import STALENESS_US

ASKED = (requested(), joined(devices=("g1", "g2", "g3")), admitted(nodes=1, most=2), eligible())
RUNNING = (*ASKED, placed(), started(), begun())
GROWN = (*RUNNING, grown(), started(rank=1, report=2))
SHRUNK = (*GROWN, shrunk(1), exited(rank=1, report=3, reason="stopped", exit_code=143))
SMALL = (*SHRUNK, given_back(1))


def test_a_gang_may_grow_shrink_and_grow_again() -> None:
    again = (*SMALL, accounted(), grown(first=2), started(rank=2, report=4))
    ends = (exited(report=5), exited(rank=2, report=6), given_back(2), accounted())

    assert broken(*again, *ends, released(), finished(), accounted()) == []


def test_a_gang_may_begin_with_more_than_its_minimum_and_never_with_more_than_its_maximum() -> None:
    assert broken(*ASKED, placed(where="n1/g1 n1/g2")) == []
    assert broken(*ASKED, placed(where="n1/g1 n1/g2 n1/g3")) == ["I7"]
    assert broken(*GROWN, grown(first=2, where="n1/g3")) == ["I7"]


def test_a_gang_never_gives_up_its_minimum_to_others_nor_rank_0() -> None:
    assert broken(*RUNNING, shrunk(0)) == ["I3", "I7"]
    assert broken(*GROWN, shrunk(0)) == ["I3"]


def test_what_grows_is_booked_and_what_shrinks_is_given_back_on_proof() -> None:
    assert broken(*RUNNING, grown(where="n1/g1")) == ["I1"]
    assert broken(*GROWN, shrunk(1), given_back(1)) == ["I4"]
    assert broken(*SHRUNK, given_back(1, devices="g3")) == ["I1"]
    assert broken(*SHRUNK, given_back(1, milli=500)) == ["I1"]
    assert broken(*SMALL, exited(report=4), released(devices="g1 g2")) == ["I1", "I1"]


def test_what_was_cut_while_it_worked_is_done_again_although_all_that_is_left_was_done() -> None:
    """Its first worker had ended on a node that was heard late; the second was told to stop."""
    evicted = GangEvicted(job="a", project=P, attempt=1, reason="moved", act=ACT)
    late = (exited(report=4), given_back(1))

    cut = exited(rank=1, report=3, reason="stopped", exit_code=143)
    assert broken(*GROWN, evicted, cut, *late, released(again=True)) == []
    assert broken(*GROWN, evicted, exited(rank=1, report=3), *late, released(again=True)) == ["I4"]
    assert "I4" in broken(*SMALL, evicted, exited(report=4), released(again=True))


def test_a_rank_names_one_worker_of_an_attempt() -> None:
    assert broken(*SMALL, grown(first=1)) == ["I3"]
    assert broken(*RUNNING, grown(first=2)) == ["I3"]


def test_only_what_runs_grows_and_shrinks() -> None:
    assert broken(*ASKED, grown()) == ["I3"]
    assert broken(*RUNNING, grown(attempt=2))[0] == "I3"
    assert broken(*GROWN, shrunk(1), shrunk(1)) == ["I4"]


def test_what_is_given_back_early_is_accounted_too() -> None:
    assert broken(*SMALL, accounted(), accounted()) == ["I4"]


def test_growing_stays_within_the_limits() -> None:
    narrow = queue(limit_milli=1000, quota_milli=0)

    assert broken(narrow, *RUNNING, grown()) == ["I5"]


def test_only_the_minimum_of_a_semi_preemptible_gang_must_fit_the_quota() -> None:
    firm = (requested(), joined(), admitted(nodes=1, most=2, protected_minimum=True), eligible())

    assert broken(queue(quota_milli=1000), *firm, placed(where="n1/g1 n1/g2")) == []
    assert broken(queue(quota_milli=500), *firm, placed(where="n1/g1 n1/g2")) == ["I5"]


def test_a_gang_with_its_minimum_left_is_short_of_nobody() -> None:
    late = Header(basis=11, decided_at_us=100_000_000 + STALENESS_US, count=1)
    lost = exited(rank=1, report=3, reason="lost", exit_code=137)

    assert broken(*GROWN, lost, (given_back(1), late)) == []
    assert broken(*RUNNING, exited(reason="lost"), (released(), late)) == []
