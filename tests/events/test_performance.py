"""The frozen log of measurements: what later code must still read, byte for byte."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from headrace.events import Event, decode, encode
from headrace.events.performance import PerformanceBandwidth, PerformanceMeasured

LOG = Path(__file__).parent / "performance.jsonl"


def recorded() -> list[tuple[bytes, Event]]:
    """Each line of the log and the event in it."""
    lines = LOG.read_bytes().splitlines()
    return [(line, decode(msgspec.json.decode(line)["type"], line)) for line in lines]


def measured() -> Sequence[PerformanceMeasured]:
    return [event for _, event in recorded() if isinstance(event, PerformanceMeasured)]


def test_every_measurement_is_read_and_written_as_it_was() -> None:
    assert [encode(event) for _, event in recorded()] == [line for line, _ in recorded()]
    assert {type(event) for _, event in recorded()} == {PerformanceMeasured, PerformanceBandwidth}


def test_more_gpus_of_one_model_make_shorter_steps_and_cost_more_of_them() -> None:
    """What a prediction of step times is fitted to: rising with size, falling with distance."""
    for model in ("H100-80GB", "A100-80GB"):
        rows = [row for row in measured() if row.model == model]
        for one, other in pairwise(rows):
            if one.gpus < other.gpus:
                assert one.step_time_us > other.step_time_us
                assert one.step_time_us * one.gpus < other.step_time_us * other.gpus


def test_wider_levels_carry_less() -> None:
    widths = [e.bytes_per_s for _, e in recorded() if isinstance(e, PerformanceBandwidth)]
    assert widths == sorted(widths, reverse=True)
