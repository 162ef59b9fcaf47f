"""The name that was probably meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents.nearest import edits, nearest


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("comand", ["command", "name"], "command"),
        ("prioirty", ["priority", "project"], "priority"),
        ("gpu", ["cpu", "gpus", "gpu_memory"], "gpus"),
        ("comm", ["command", "setup"], "command"),
        ("Vision", ["vision", "visions"], "vision"),
        ("zebra", ["command"], ""),
        ("", ["command"], ""),
    ],
)
def test_a_slip_is_understood(name, known, meant):
    assert nearest(name, known) == meant


@given(st.lists(st.text("abc", min_size=1, max_size=6), unique=True), st.randoms())
def test_the_order_in_which_names_are_known_never_matters(known, chance):
    shuffled = list(known)
    chance.shuffle(shuffled)
    assert nearest("abca", known) == nearest("abca", shuffled)


@given(st.text(max_size=12), st.text(max_size=12))
def test_edits_are_symmetric_and_never_more_than_writing_it_anew(one, other):
    assert edits(one, other) == edits(other, one) <= max(len(one), len(other))
    assert (edits(one, other) == 0) == (one == other)
