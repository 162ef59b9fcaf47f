"""The traceparent header, as strangers send it."""

from __future__ import annotations

import random

import pytest

from headrace import telemetry

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_traceparent_is_read_and_written_alike() -> None:
    assert str(telemetry.parse(GOOD)) == GOOD


def test_a_trace_goes_on_under_the_traceparent_it_came_with() -> None:
    assert telemetry.continued(GOOD) == GOOD


@pytest.mark.parametrize(
    "header",
    [
        "",
        "garbage",
        GOOD + "-more",
        GOOD.upper(),
        GOOD.replace("00-4", "ff-4"),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        GOOD + "\n",
    ],
)
def test_what_is_no_traceparent_begins_a_new_trace(header: str) -> None:
    made = telemetry.continued(header)

    assert telemetry.parse(header) is None
    assert telemetry.parse(made) is not None


def test_a_later_version_may_say_more() -> None:
    assert telemetry.parse("01" + GOOD[2:] + "-more") is not None


def test_a_child_stays_in_its_trace_under_a_span_of_its_own() -> None:
    child = telemetry.parse(telemetry.child(GOOD))

    assert child is not None
    assert child.trace == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert child.span != "00f067aa0ba902b7"


def test_ids_repeat_with_the_seed_they_are_drawn_from() -> None:
    try:
        telemetry.use_random(random.Random(7))
        first = telemetry.make()
        telemetry.use_random(random.Random(7))

        assert telemetry.make() == first
        assert telemetry.make() != first
    finally:
        telemetry.use_random(random.Random())
