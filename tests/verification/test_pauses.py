"""I16 and pauses in I15: gangs leave their devices whole and on proof, and come back as they left."""

from __future__ import annotations

import pytest
from tests.verification.histories import (
    ACT,
    P,
    admitted,
    begun,
    broken,
    eligible,
    exited,
    joined,
    placed,
    released,
    requested,
    started,
)
from tests.verification.test_promises import DAY_US, SOON_US, decided, holding, reserved

from headrace.events.gangs import GangEvicted, Share
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    GangPaused,
    GangPausing,
    GangResumed,
    JobPaused,
    JobPausing,
    JobResuming,
)

GANG = (
    requested(),
    joined(devices=("g1", "g2", "g3")),
    admitted(nodes=2),
    eligible(),
    placed(where="n1/g1 n1/g2"),
    started(),
    started(rank=1, report=2),
    begun(),
)
AT = len(GANG)  # position of what comes before the first step of a pause
PAUSING = JobPausing(job="a", project=P)
PAUSED = JobPaused(job="a", project=P, way="cuda-checkpoint")


def asked(phase: str, job: str = "a", image_bytes: tuple[int, ...] = ()) -> GangPausing:
    return GangPausing(
        job=job,
        project=P,
        attempt=1,
        phase=phase,
        reason="paused",
        image_bytes=image_bytes,
        act=ACT,
    )


def locked(rank: int, asked_at: int) -> AttemptLocked:
    return AttemptLocked(
        job="a", project=P, attempt=1, rank=rank, node="n1", incarnation="i1",
        report=asked_at * 10 + rank, asked_at=asked_at,
    )  # fmt: skip


def left(rank: int, asked_at: int) -> AttemptPaused:
    return AttemptPaused(
        job="a", project=P, attempt=1, rank=rank, node="n1", incarnation="i1",
        report=asked_at * 10 + rank, asked_at=asked_at,
    )  # fmt: skip


def away(devices: str = "g1 g2") -> GangPaused:
    shares = tuple(Share(device=device, milli=1000) for device in devices.split())
    return GangPaused(
        job="a", project=P, attempt=1, way="cuda-checkpoint", shares=shares,
        milli=1000 * len(shares), held_us=5,
    )  # fmt: skip


def back(where: str = "n1/g1 n1/g2") -> GangResumed:
    workers = placed(where=where).workers
    return GangResumed(
        job="a", project=P, attempt=1, workers=workers, milli=1000 * len(workers), act=ACT
    )


LOCKED = (asked("locked"), locked(0, AT + 1), locked(1, AT + 1))
MOVED = (asked("paused"), left(0, AT + 4), left(1, AT + 4))
AWAY = (*GANG, *LOCKED, *MOVED, away())


def test_a_gang_may_leave_its_devices_and_come_back_to_others_of_its_node() -> None:
    assert broken(*AWAY, back()) == []
    assert broken(*AWAY, back("n1/g1 n1/g3")) == []


def test_no_process_leaves_before_all_are_locked() -> None:
    assert broken(*GANG, *LOCKED[:2], asked("paused")) == ["I16"]
    assert broken(*GANG, asked("locked"), locked(0, 1), locked(1, 1), asked("paused")) == ["I16"]


def test_devices_are_free_only_when_every_process_has_left_them() -> None:
    assert broken(*GANG, *LOCKED, *MOVED[:2], away()) == ["I16"]
    assert broken(*GANG, *LOCKED, MOVED[0], left(0, AT + 4), left(1, AT + 1), away()) == [
        "I3",
        "I16",
    ]


def test_nobody_leaves_twice_or_what_it_does_not_have() -> None:
    evicted = GangEvicted(job="a", project=P, attempt=1, reason="reclaimed", act=ACT)

    assert broken(*AWAY, asked("locked")) == ["I16"]
    assert "I16" in broken(*AWAY, away())
    assert broken(*GANG, evicted, asked("locked")) == ["I16"]


def test_what_is_kept_goes_to_no_other_node() -> None:
    there = joined("n2", devices=("g4", "g5"))

    assert broken(*AWAY, there, back("n2/g4 n2/g5")) == ["I16"]


def test_nobody_comes_back_who_was_not_away_or_may_not_compete() -> None:
    assert "I16" in broken(*GANG, back())
    assert broken(*AWAY, PAUSED, back()) == ["I4"]


def test_what_comes_back_is_booked_like_anything_else() -> None:
    other = (requested("b"), admitted("b"), eligible("b"), placed("b", where="n1/g1"))

    assert broken(*AWAY, *other, back()) == ["I1"]
    assert broken(*AWAY, *other, back("n1/g2 n1/g3")) == []


def test_a_job_is_not_called_paused_while_it_holds_its_devices() -> None:
    assert broken(*GANG, PAUSED) == ["I16"]
    assert broken(*AWAY, PAUSED) == []


def asking(event: type, job: str = "b") -> object:
    return event(job=job, project=P)


def test_nothing_is_promised_to_who_is_to_pause() -> None:
    assert broken(*holding(), asking(JobPausing), reserved(DAY_US)) == ["I15"]


@pytest.mark.parametrize("is_paused", [False, True])
def test_whose_pause_is_taken_back_in_time_waits_anew(is_paused: bool) -> None:
    said = (JobPaused(job="b", project=P, way="waiting"),) if is_paused else ()
    resumed = (*holding(), asking(JobPausing), *said, asking(JobResuming))

    assert broken(*resumed, reserved(DAY_US)) == (["I15"] if is_paused else [])
    assert broken(*resumed, eligible("b"), reserved(DAY_US)) == []


def test_who_is_said_to_compete_after_it_was_paused_competes_only_once_it_is_resumed() -> None:
    stands = (asking(JobPausing), JobPaused(job="b", project=P, way="waiting"), eligible("b"))
    gone = (started(), exited(), released())

    assert "I15" in broken(*holding(), *stands, reserved(DAY_US))
    assert "I4" in broken(*holding(), *gone, *stands, asking(JobResuming), placed("b"))
    again = (asking(JobResuming), eligible("b"), placed("b"))
    assert "I4" not in broken(*holding(), *gone, *stands, *again)


OTHER = (requested("c"), admitted("c"), eligible("c"))
PASSED = decided(placed("c", where="n1/g2"), SOON_US * 10)


def leaving(image_bytes: tuple[int, ...] = ()) -> tuple[object, ...]:
    """Job a runs, b is promised seats, and a leaves its devices."""
    first = (*holding(), started(), begun(), reserved(SOON_US))
    at = len(first)
    steps = (asked("locked"), locked(0, at + 1), asked("paused", image_bytes=image_bytes))
    return (*first, *steps, left(0, at + 3), away("g1"))


def test_a_gang_that_leaves_its_devices_keeps_nobody_waiting() -> None:
    assert broken(*leaving(), *OTHER, PASSED) == ["I15"]


def test_memory_that_is_kept_for_it_voids_what_was_promised_there() -> None:
    assert broken(*leaving(image_bytes=(5,)), *OTHER, PASSED) == []


def test_a_gang_that_has_come_back_stays_no_longer_than_it_had_left() -> None:
    first = (*holding(max_duration_us=DAY_US), started(), begun())
    at = len(first)
    steps = (asked("locked"), locked(0, at + 1), asked("paused"), left(0, at + 3), away("g1"))
    resumed = decided(back("n1/g1"), DAY_US // 2)
    promised = decided(reserved(DAY_US), DAY_US // 2)
    passed = decided(placed("c", where="n1/g2"), DAY_US + DAY_US // 4, basis=200)
    late = decided(placed("c", where="n1/g2"), 3 * DAY_US, basis=200)

    assert broken(*first, *steps, resumed, promised, *OTHER, passed) == ["I15"]
    assert broken(*first, *steps, resumed, promised, *OTHER, late) == []


def test_an_attempt_that_ends_while_it_is_away_gives_back_no_device() -> None:
    gone = (exited(report=901, exit_code=137), exited(rank=1, report=902, exit_code=137))

    assert broken(*AWAY, *gone, released(devices="", again=True)) == []
    assert "I1" in broken(*AWAY, *gone, released(devices="g1 g2", again=True))
