"""Ids never repeat."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.admission.ids import SHAPES, Ids, suffix


def test_ids_of_one_term_and_of_the_next_are_all_different():
    ids = Ids()
    found = [ids.next(epoch) for epoch in (1, 2, 3) for _ in range(5_000)]
    assert len(set(found)) == len(found)
    assert {len(one) for one in found} == {4}


def test_ids_do_not_look_counted():
    first, second = suffix(1, 1), suffix(1, 2)
    assert sum(a != b for a, b in zip(first, second, strict=True)) >= 2


def test_ids_grow_when_there_are_many():
    assert [len(suffix(1, 1 << bits)) for bits in (13, 14, 17, 20, 23, 26)] == [4, 5, 6, 7, 8, 12]


@given(st.integers(1, 2**14), st.integers(1, 2**24), st.integers(1, 2**14), st.integers(1, 2**24))
def test_two_draws_are_never_the_same(epoch, count, other_epoch, other_count):
    same = (epoch, count) == (other_epoch, other_count)
    assert (suffix(epoch, count) == suffix(other_epoch, other_count)) == same


def test_a_suffix_can_stand_in_a_subject_and_in_a_shell():
    letters = "".join(suffix(7, count) for count in range(1, 500))
    assert letters.isalnum()
    assert letters == letters.lower()
    assert all(letters_ * 5 > epoch_bits for letters_, epoch_bits in SHAPES)
