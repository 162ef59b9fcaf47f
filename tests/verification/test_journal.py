"""The workers' own journal against what may have run."""

from __future__ import annotations

import pytest

from headrace.verification import check_journal


def test_a_journal_in_order_has_nothing_against_it() -> None:
    lines = [
        "start a 1 0 100 g1", "start b 1 0 101 g2:500", "start c 1 0 102 g2:500",
        "end a 1 0 110 g1", "end b 1 0 111 g2:500", "start a 2 0 120 g1", "end a 2 0 130 g1",
        "end c 1 0 140 g2:500", "start d 1 0 141 -", "end d 1 0 142 -",
    ]  # fmt: skip

    assert check_journal(lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["start a 1 0 1 g1", "end a 1 0 2 g1", "start a 1 0 3 g1", "end a 1 0 4 g1"],
        ["start a 1 0 1 g1", "start b 1 0 2 g1", "end a 1 0 3 g1", "end b 1 0 4 g1"],
        ["start a 1 0 1 g1:600", "start b 1 0 2 g1:600", "end a 1 0 3 g1:600"],
        ["start a 1 0 1 g1", "start a 2 0 2 g2", "end a 1 0 3 g1", "end a 2 0 4 g2"],
        ["start b 1 0 2 g1", "start a 1 0 1 g1", "end a 1 0 3 g1"],
    ],
)
def test_what_ran_twice_or_on_anothers_device_is_told(lines: list[str]) -> None:
    assert [violation.invariant for violation in check_journal(lines)] == ["I11"]


def test_a_killed_worker_holds_nothing_for_ever() -> None:
    assert check_journal(["start a 1 0 1 g1", "start a 2 0 9 g1", "end a 2 0 10 g1"]) == []
