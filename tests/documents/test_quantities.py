"""Amounts as people write them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents import quantities
from headrace.documents.refusing import DocumentError


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("90s", 90_000_000),
        ("15m", 900_000_000),
        ("8h", 28_800_000_000),
        ("3d", 259_200_000_000),
        ("1.5h", 5_400_000_000),
        ("0.000001s", 1),
    ],
)
def test_a_duration_is_whole_microseconds(text, us):
    assert quantities.duration_us("max_duration", text) == us


@pytest.mark.parametrize(
    "text", ["", "90", "-1s", "1w", "1h30m", "0s", "0.0000001s", "1e3s", "1 s s", 90, None, True]
)
def test_what_is_no_duration_is_refused_with_what_is(text):
    with pytest.raises(DocumentError) as refused:
        quantities.duration_us("max_duration", text)
    assert refused.value.refusal.field == "max_duration"
    assert refused.value.refusal.instead == "90s, 15m, 8h or 3d"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("8GiB", 8 * 2**30),
        ("8 gb", 8 * 10**9),
        ("512MiB", 512 * 2**20),
        ("1.5TB", 15 * 10**11),
        ("7B", 7),
    ],
)
def test_a_gigabyte_is_decimal_and_a_gibibyte_is_binary(text, size):
    assert quantities.byte_size("memory", text) == size


@pytest.mark.parametrize(
    "text", ["8", "8G", "8Gi", "-8GB", "0GB", "0.0000000001GB", "9999999TB", 8]
)
def test_a_size_without_its_unit_is_refused(text):
    with pytest.raises(DocumentError):
        quantities.byte_size("memory", text)


@pytest.mark.parametrize(
    ("value", "milli"),
    [(2, 2000), ("2", 2000), (0.5, 500), ("0.125", 125), ("1.000", 1000), (0, 0)],
)
def test_a_number_is_whole_thousandths(value, milli):
    assert quantities.milli("cpu", value) == milli


@pytest.mark.parametrize(
    "value",
    [
        "0.0001",
        1e-7,
        "-1",
        -1,
        "1e3",
        "1/2",
        "inf",
        float("inf"),
        float("nan"),
        True,
        None,
        [],
        10**30,
    ],
)
def test_a_number_finer_than_thousandths_or_none_at_all_is_refused(value):
    with pytest.raises(DocumentError):
        quantities.milli("cpu", value)


@given(st.integers(0, 10**9))
def test_thousandths_written_as_a_decimal_are_read_exactly(milli):
    whole, part = divmod(milli, 1000)
    assert quantities.milli("cpu", f"{whole}.{part:03d}") == milli


@given(st.integers(0, 10**6))
def test_thousandths_that_came_as_a_float_are_read_exactly(milli):
    assert quantities.milli("cpu", milli / 1000) == milli


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans()))
def test_anything_else_is_refused_and_never_an_error(value):
    for read in (quantities.milli, quantities.duration_us, quantities.byte_size):
        with contextlib.suppress(DocumentError):
            assert isinstance(read("field", value), int)
