"""Decisions are the same from a snapshot, in another order, and in another process."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.determinism import deriving, permuting, recording, ways

from headrace.decider import Draft
from headrace.decider.version import installed_deciders

SEEDS = (0, 2)
DECIDERS = installed_deciders()
EVICTED = "gang.evicted.v1"


@pytest.fixture(scope="module")
def histories() -> list[recording.History]:
    return [recording.history_of(seed) for seed in SEEDS]


def expected(history: recording.History) -> list[str]:
    return [deriving.digest_of(stored) for stored in recording.decided(history)]


def test_the_histories_are_worth_deriving(histories: list[recording.History]) -> None:
    kinds = [stored.type for history in histories for stored in recording.decided(history)]

    assert len(kinds) > 200
    assert EVICTED in kinds


@pytest.mark.parametrize("way", sorted(deriving.WAYS))
def test_every_decision_is_derived_again(way: str, histories: list[recording.History]) -> None:
    for history in histories:
        assert list(deriving.derive(DECIDERS, history, way)) == expected(history)


@pytest.mark.parametrize("way", ways.WAYS, ids=lambda way: way.name)
def test_another_process_decides_the_same(
    way: ways.Way, histories: list[recording.History], tmp_path: Path
) -> None:
    recording.write(tmp_path / "histories", histories)

    derived = ways.digests(ways.begin(way, tmp_path / "histories"))

    assert derived == [digest for history in histories for digest in expected(history)]


def _as_the_nodes_come(state: Any, drafts: list[Draft]) -> Iterator[Draft]:
    first = next(iter(state.nodes), "")
    yield from (drafts if first == "n1" else drafts[::-1])


def _as_it_remembers(state: Any, drafts: list[Draft]) -> Iterator[Draft]:
    state.__dict__["turns"] = state.__dict__.get("turns", 0) + 1
    yield from (drafts if state.__dict__["turns"] > 1 else drafts[::-1])


@pytest.mark.parametrize(
    ("way", "bug"), [("shuffled", _as_the_nodes_come), ("cut", _as_it_remembers)]
)
def test_a_decider_that_heeds_what_means_nothing_is_found(
    way: str, bug: Any, histories: list[recording.History]
) -> None:
    sound = DECIDERS["placement"]
    wrong = dataclasses.replace(
        sound, decide=lambda state, now_us: list(bug(state, list(sound.decide(state, now_us))))
    )
    deciders = DECIDERS | {"placement": wrong}

    assert any(
        list(deriving.derive(deciders, history, "folded"))
        != list(deriving.derive(deciders, history, way))
        for history in histories
    )


def test_every_order_that_means_something_is_one_of_a_state() -> None:
    for name in permuting.MEANT:
        service, owner, field = name.split(".")
        state = import_module(f"headrace.{service}.state")
        assert field in getattr(state, owner).__struct_fields__


def test_a_permuted_state_is_equal_and_in_another_order() -> None:
    state = DECIDERS["placement"].initial()
    state.secrets = {name: {"a": "1", "b": "2"} for name in "abcdef"}
    state.due = dict.fromkeys("abcdef")

    other = permuting.permuted(state, random.Random(1))

    assert other == state
    assert list(other.secrets) != list(state.secrets)
    assert list(other.due) == list(state.due)
