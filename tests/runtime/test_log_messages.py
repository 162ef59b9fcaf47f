"""What of an append travels together."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime import log_messages
from headrace.runtime.log_messages import RUN_BYTES_MAX
from headrace.store.interface import Stored

SIZES = st.sampled_from([1, 300, RUN_BYTES_MAX // 2, RUN_BYTES_MAX])
KINDS = st.lists(st.tuples(st.sampled_from(["job.requested.v1", "job.admitted.v1"]), SIZES))


def stored(position, type_, size):
    return Stored(
        position=position,
        recorded_at_us=1,
        stream="job/x",
        type=type_,
        project="",
        header=b"h",
        data=b"d" * size,
        hash=b"#",
    )


@given(KINDS)
def test_every_event_travels_once_in_order_with_its_like_and_within_the_bound(kinds):
    events = [stored(number, *kind) for number, kind in enumerate(kinds, start=1)]
    messages = [log_messages.decode(log_messages.encode(*r)) for r in log_messages.runs(events)]
    assert [event for message in messages for event in message] == events
    for message in messages:
        assert len({event.type for event in message}) == 1
        size = sum(len(event.header) + len(event.data) for event in message)
        assert size <= RUN_BYTES_MAX or len(message) == 1


def test_what_is_alike_and_small_travels_together():
    kinds = ["job.requested.v1"] * 20 + ["job.admitted.v1"] * 20
    events = [stored(number, kind, 300) for number, kind in enumerate(kinds, start=1)]
    assert [len(run) for run in log_messages.runs(events)] == [20, 20]
