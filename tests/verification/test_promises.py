"""I15: who waits is told when it starts at the latest, and starts by then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.verification.histories import (
    ACT,
    GOOD,
    P,
    admitted,
    broken,
    eligible,
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
from headrace.events.gangs import GangEvicted, GangReserved, Seat
from headrace.events.jobs import JobHeld
from headrace.events.nodes import DeviceFaulted, NodeChanged, NodeFilled, NodeSilent
from headrace.events.platform import ServiceLed
from headrace.events.queues import Allowance, Queue, QueueConfigured

DAY_US = 86_400_000_000
LED = ServiceLed(
    service="placement", epoch=1, decision_version="v", settings={"reserve_after_s": 0}
)


def holding(max_duration_us: int = DAY_US) -> tuple[object, ...]:
    """Job a has n1/g1, and job b waits."""
    first = (joined(), requested(), admitted(requested_at=2, max_duration_us=max_duration_us))
    return (*first, eligible(), placed(), requested("b"), admitted("b"), eligible("b"))


def reserved(at_us: int, node: str = "n1") -> GangReserved:
    seats = (Seat(rank=0, node=node, milli=1000, count=1),)
    return GangReserved(job="b", project=P, at_us=at_us, seats=seats, act=ACT)


def faulted(action: str, node: str = "n1") -> DeviceFaulted:
    return DeviceFaulted(
        node=node, device="g2", incarnation="i1", report=9, action=action, text="XID 79"
    )


def decided(event: object, at_us: int, basis: int = 100) -> tuple[object, Header]:
    return event, Header(basis=basis, decided_at_us=at_us, count=1)


WITHDRAWN = GangReserved(job="b", project=P, act=ACT)
OTHER = (requested("c"), admitted("c"), eligible("c"))
SOON_US = 10_000
PASSED = decided(placed("c", where="n1/g2"), SOON_US * 10)  # somebody else gets a place much later


def test_a_reservation_is_kept_by_placing_the_gang() -> None:
    then = decided(placed("b", where="n1/g2"), SOON_US)

    assert broken(*holding(), reserved(SOON_US), then) == []


def test_others_may_be_placed_before_a_reservation_begins() -> None:
    before = decided(placed("c", where="n1/g2"), SOON_US * 10)

    assert broken(*holding(), reserved(DAY_US), *OTHER, before) == []


def test_who_is_passed_when_its_reservation_has_begun_was_lied_to() -> None:
    assert broken(*holding(), reserved(SOON_US), *OTHER, PASSED) == ["I15"]


def test_an_answer_to_an_operator_places_nobody_and_passes_nobody() -> None:
    answered = decided(NodeChanged(node="n1", change="uncordon"), SOON_US * 10)
    placing = decided(placed("b", where="n1/g2"), SOON_US * 10)

    assert broken(*holding(), reserved(SOON_US), answered, placing) == []
    assert broken(*holding(), reserved(SOON_US), *OTHER, answered, PASSED) == ["I15"]


def test_a_holder_that_overstays_excuses_until_it_is_released() -> None:
    late = (*holding(max_duration_us=1), reserved(SOON_US), *OTHER)
    gone = (started(), exited(), decided(released(), SOON_US), finished())

    assert broken(*late, PASSED) == []
    assert broken(*late, *gone, PASSED) == ["I15"]


def test_a_holder_that_is_being_stopped_excuses() -> None:
    stopped = GangEvicted(job="a", project=P, attempt=1, reason="reclaimed", act=ACT)

    assert broken(*holding(), reserved(SOON_US), *OTHER, stopped, PASSED) == []


def test_a_holder_elsewhere_excuses_only_under_a_common_limit() -> None:
    there = (joined("n2", devices=("g3",)), *holding(max_duration_us=1))
    waits = (reserved(SOON_US, node="n2"), *OTHER, PASSED)

    assert broken(*there, *waits) == ["I15"]
    assert broken(queue(), *there, *waits) == ["I15"]
    assert broken(queue(limit_milli=8000), *there, *waits) == []


def test_a_lost_node_voids_what_was_promised_there() -> None:
    lost = (*holding(), reserved(SOON_US), NodeSilent(node="n1"))

    assert broken(*lost, *OTHER, PASSED) == []
    assert broken(*lost, WITHDRAWN) == []
    assert broken(*lost, reserved(SOON_US * 2)) == []


def test_what_was_lost_while_a_promise_was_being_made_voids_it_too() -> None:
    late = decided(reserved(SOON_US), 1_000, basis=len(holding()))
    withdrawn = decided(WITHDRAWN, 2_000)

    for changed in (NodeSilent(node="n1"), queue(limit_milli=0)):
        assert broken(*holding(), changed, late, withdrawn) == []
    assert broken(*holding(), late, withdrawn) == ["I15"]


def test_a_drained_device_voids_what_was_promised_on_its_node() -> None:
    drained, restarted, elsewhere = faulted("drain"), faulted("restart"), faulted("drain", "n2")
    changes = (WITHDRAWN, reserved(SOON_US * 2))

    assert broken(*holding(), reserved(SOON_US), drained, *OTHER, PASSED) == []
    for change in changes:
        assert broken(*holding(), reserved(SOON_US), drained, change) == []
        assert broken(*holding(), reserved(SOON_US), restarted, change) == ["I15"]
        assert broken(*holding(), reserved(SOON_US), elsewhere, change) == ["I15"]


def test_a_full_node_voids_what_was_promised_there() -> None:
    full = NodeFilled(node="n1", used_permille=950, too_full=True)
    emptied = NodeFilled(node="n1", used_permille=500, too_full=False)

    assert broken(*holding(), reserved(SOON_US), full, WITHDRAWN) == []
    assert broken(*holding(), reserved(SOON_US), full, *OTHER, PASSED) == []
    assert broken(*holding(), full, emptied, reserved(SOON_US), WITHDRAWN) == ["I15"]
    assert broken(*holding(), full, reserved(SOON_US), emptied, WITHDRAWN) == ["I15"]


def test_a_node_without_room_for_a_start_voids_what_was_promised_there() -> None:
    no_room = exited(reason="disk-full", exit_code=126)

    assert broken(*holding(), reserved(SOON_US), no_room, WITHDRAWN) == []
    assert broken(*holding(), reserved(SOON_US), exited(), WITHDRAWN) == ["I15"]


def moving() -> tuple[object, ...]:
    """Job a is being stopped for b, and promised n2."""
    first = (joined("n2", devices=("g3",)), *holding())
    stopped = GangEvicted(job="a", project=P, attempt=1, reason="moved", gainer="b", act=ACT)
    there = msgspec.structs.replace(reserved(SOON_US, node="n2"), job="a")
    return (*first, *OTHER, stopped, there)


EXITED = (started(), exited(reason="stopped", exit_code=143))
LEFT = (*EXITED, decided(released(again=True), SOON_US, basis=len((*moving(), *EXITED))))


def test_a_gang_that_moves_is_promised_where_to_before_it_waits() -> None:
    assert broken(*moving(), PASSED) == []
    assert broken(*moving(), *LEFT, decided(placed("a", attempt=2, where="n2/g3"), SOON_US)) == []


def test_a_gang_that_has_left_is_placed_where_it_was_to_move() -> None:
    assert broken(*moving(), *LEFT, PASSED) == ["I15"]


def test_what_is_promised_to_a_gang_that_moves_may_be_withdrawn_until_it_has_left() -> None:
    withdrawn = msgspec.structs.replace(WITHDRAWN, job="a")

    assert broken(*moving(), withdrawn) == []
    assert broken(*moving(), *LEFT, withdrawn) == ["I15"]


def test_a_gang_that_runs_on_is_promised_nothing() -> None:
    there = msgspec.structs.replace(reserved(SOON_US), job="a")

    assert broken(*holding(), there) == ["I15"]


def test_nothing_else_withdraws_a_reservation_or_makes_it_later() -> None:
    assert broken(*holding(), reserved(SOON_US), WITHDRAWN) == ["I15"]
    assert broken(*holding(), reserved(SOON_US), reserved(SOON_US * 2)) == ["I15"]
    assert broken(*holding(), reserved(SOON_US), reserved(SOON_US // 2)) == []
    assert broken(*holding(), reserved(SOON_US), joined("n2", ["g3"]), WITHDRAWN) == ["I15"]


def test_a_lowered_limit_excuses_until_those_under_it_have_ended() -> None:
    lowered = QueueConfigured(
        name=P, queue=Queue(queue=P, kind="project", limit_milli=1000), change="updated"
    )
    raised = QueueConfigured(name=P, queue=Queue(queue=P, kind="project"), change="updated")

    assert broken(queue(), *holding(), reserved(SOON_US), lowered, *OTHER, PASSED) == ["I5"]
    assert broken(queue(), *holding(), reserved(SOON_US), raised, *OTHER, PASSED) == ["I15"]


FEW = Allowance(quota_milli=1000)


@pytest.mark.parametrize(
    "quota",
    [
        {"quota_milli": 1000},
        {"cpu_quota_milli": 0},
        {"memory_quota_bytes": 0},
        {"per_type": {"H100": FEW}},
        {"per_pool": {"train": FEW}},
    ],
)
def test_a_lowered_quota_excuses_only_what_cannot_be_preempted(quota: dict[str, Any]) -> None:
    firm, other = waiting(preemptible=False), waiting(preemptible=True)

    assert broken(configured(), *firm, configured(**quota), WITHDRAWN) == []
    assert broken(configured(), *other, configured(**quota), WITHDRAWN) == ["I15"]
    assert broken(configured(**quota), *firm, configured(weight=2, **quota), WITHDRAWN) == ["I15"]


def test_a_limit_of_a_part_or_of_a_user_excuses_when_it_is_lowered() -> None:
    limit, none = Allowance(limit_milli=1000), Allowance()
    users = configured(user_max_milli=1000)  # of a project that its users do not share equally
    waits = (configured(), *waiting(preemptible=True))

    for bound in ({"per_type": {"H100": limit}}, {"users_equal": True, "user_max_milli": 1000}):
        assert broken(*waits, configured(**bound), WITHDRAWN) == []
    assert broken(*waits, configured(per_type={"H100": none}), WITHDRAWN) == ["I15"]
    assert broken(*waits, users, WITHDRAWN) == ["I15"]


def waiting(*, preemptible: bool) -> tuple[object, ...]:
    """Job b, alone, has a reservation on n1."""
    asked = (requested("b"), admitted("b", requested_at=3, preemptible=preemptible), eligible("b"))
    return (joined(), *asked, reserved(SOON_US))


def configured(**values: Any) -> QueueConfigured:
    """The project, with a quota of everything unless that is given."""
    whole = Queue(queue=P, kind="project", **({"quota_milli": -1} | values))
    return QueueConfigured(name=P, queue=whole, change="updated")


def test_a_job_that_does_not_wait_is_promised_nothing() -> None:
    held = JobHeld(job="b", project=P, reason="quota")

    assert broken(*holding(), held, reserved(SOON_US)) == ["I15"]
    assert broken(*holding(), held, decided(reserved(SOON_US), SOON_US, basis=8)) == []


def test_who_has_waited_long_is_told_when_it_starts() -> None:
    untold = (*holding(), *OTHER, decided(placed("b", where="n1/g2"), DAY_US))
    stopped = GangEvicted(job="a", project=P, attempt=1, reason="timeout", act=ACT)
    turn, early = decided(stopped, DAY_US), decided(stopped, SOON_US)
    alike = decided(placed("c", where="n1/g2"), DAY_US)
    told = (*holding(), reserved(DAY_US), turn, decided(placed("b", where="n1/g2"), DAY_US))

    assert broken(LED, *untold) == []  # placed in the first turn in which it had waited so long
    assert broken(LED, *holding(), turn, decided(placed("b", where="n1/g2"), DAY_US)) == ["I15"]
    assert broken(LED, *told) == []
    after_one_alike = (alike, decided(placed("b", where="n2/g3"), DAY_US))
    there = joined("n2", devices=("g3",))
    assert broken(LED, there, *holding(), *OTHER, *after_one_alike) == []
    assert broken(*holding(), early, decided(placed("b", where="n1/g2"), SOON_US * 2)) == []


def test_nobody_is_told_who_was_never_kept_waiting() -> None:
    assert broken(LED, *GOOD) == []
