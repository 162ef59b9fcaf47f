"""A container's output arrives once, however often it is taken up again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.node_agent.containers import output
from headrace.node_agent.containers.output import Carried, Piece, since_of

# what an engine keeps: moments that may repeat, and that two streams put a little out of order
LOGS = st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=6)), max_size=60)


def engine_says(log: list[Piece], since: bytes) -> list[Piece]:
    return [piece for piece in log if piece[0] >= since]


@given(log=LOGS, cuts=st.lists(st.integers(0, 60), max_size=6), torn=st.booleans())
def test_each_byte_is_written_once_whoever_is_cut_off_where(
    log: list[tuple[int, bytes]], cuts: list[int], *, torn: bool
) -> None:
    pieces = [(f"2026-11-21T16:14:43.{at:09}Z".encode(), data) for at, data in log]
    with tempfile.TemporaryDirectory() as folder:
        for end in [*cuts, len(pieces)]:
            carried = Carried(Path(folder), 1_000_000)
            left = engine_says(pieces[: max(end, 0)], carried.since)[carried.count :]
            half = len(left) // 2
            for batch in (left[:half], left[half:]):
                if batch:
                    carried.take(batch)
            carried.close()
            if torn and end < len(pieces) and (Path(folder) / output.POSITION).exists():
                with (Path(folder) / "0.log").open("ab") as file:
                    file.write(b"written, and not noted any more")
        carried = Carried(Path(folder), 1_000_000)
        carried.close()
        assert (Path(folder) / "0.log").read_bytes() == b"".join(data for _, data in pieces)


def test_the_moment_it_counts_from_moves_on(tmp_path: Path) -> None:
    carried = Carried(tmp_path, 1_000_000)
    log = [(f"2026-11-21T16:14:{n // 100:02}.{n:09}Z".encode(), b"x") for n in range(3_000)]
    for start in range(0, len(log), 100):
        carried.take(log[start : start + 100])
    assert carried.count < 3_000
    again = Carried(tmp_path, 1_000_000)
    assert engine_says(log, again.since)[again.count :] == []
    for each in (carried, again):
        each.close()


def test_a_moment_is_asked_for_as_the_engine_wants_it() -> None:
    assert since_of(b"1970-01-01T00:00:00.000000000Z") == "0.000000000"
    assert since_of(b"2026-11-21T16:14:43.941731492Z") == "1795277683.941731492"
