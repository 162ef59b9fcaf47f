"""What every bus promises of streams, which keep messages, and of those who work through them."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.buses import Heard

from headrace.bus.interface import PAYLOAD_BYTES_MAX, BusError, NoReply, WrongSequence

STORED_S = 20.0


@pytest.fixture
async def bus(buses):
    return await buses.client()


@pytest.fixture
def kept(buses):
    """The subject of the test's stream's messages."""
    return f"{buses.prefix}.kept"


async def fill(bus, kept, numbers):
    for number in numbers:
        await bus.store(f"{kept}.x", b"%d" % number)


async def messages_of(buses, bus):
    """What the stream has, oldest first, as a new consumer sees it."""
    held = (await bus.stream_state(buses.prefix)).messages
    heard = Heard()
    consumer = await bus.consume(buses.prefix, "looks-at-all", heard)
    data = await heard.count(held)
    await consumer.stop()
    return data


async def test_a_stream_counts_from_one_and_has_what_was_stored(buses, bus, kept):
    state = await bus.ensure_stream(buses.spec())
    assert (state.last, state.messages) == (0, 0)
    assert [await bus.store(f"{kept}.x", b"%d" % n) for n in range(3)] == [1, 2, 3]
    held = await bus.stream_state(buses.prefix)
    assert (held.first, held.last, held.messages) == (1, 3, 3)
    await bus.store(f"{kept}.x", b"x" * 10_000)
    assert (await bus.stream_state(buses.prefix)).bytes >= held.bytes + 10_000


async def test_ensuring_a_stream_again_keeps_its_messages_and_brings_new_limits(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    await fill(bus, kept, range(3))
    assert (await bus.ensure_stream(buses.spec())).messages == 3
    changed = buses.spec(age_s_max=60, messages_per_subject_max=3, discard_new=True)
    assert (await bus.ensure_stream(changed)).messages == 3
    with pytest.raises(BusError):
        await fill(bus, kept, [4])


async def test_a_stream_may_begin_anywhere_and_is_ensured_again_as_it_is(buses, bus, kept):
    state = await bus.ensure_stream(buses.spec(first_sequence=41))
    assert (state.last, state.messages) == (40, 0)
    assert await bus.store(f"{kept}.x", b"", {}, 40) == 41
    again = await bus.ensure_stream(buses.spec(first_sequence=41))
    assert (again.first, again.last, again.messages) == (41, 41, 1)


async def test_a_stream_says_of_which_log_it_has_events(buses, bus, kept):
    assert (await bus.ensure_stream(buses.spec(lineage="one"))).lineage == "one"
    assert (await bus.stream_state(buses.prefix)).lineage == "one"


async def test_there_is_no_state_of_a_stream_that_is_not_there(buses, bus, kept):
    assert await bus.stream_state(buses.prefix) is None
    await bus.delete_stream(buses.prefix)
    await bus.ensure_stream(buses.spec())
    await bus.delete_stream(buses.prefix)
    assert await bus.stream_state(buses.prefix) is None
    with pytest.raises(NoReply):
        await bus.store(f"{kept}.x", b"")


async def test_the_wrong_sequence_is_refused_and_nothing_is_stored(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    await fill(bus, kept, range(2))
    for wrong in (0, 1, 3):
        with pytest.raises(WrongSequence):
            await bus.store(f"{kept}.x", b"", {}, wrong)
    assert await bus.store(f"{kept}.x", b"", {}, 2) == 3


async def test_a_plain_publish_is_stored_unless_it_expects_another_sequence(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    for expected in (0, 1, 5, 2, 2):
        header = {"Nats-Expected-Last-Sequence": str(expected)}
        await bus.publish(f"{kept}.x", b"after %d" % expected, header)
    assert await bus.store(f"{kept}.x", b"last", {}, 3) == 4
    assert await messages_of(buses, bus) == [b"after 0", b"after 1", b"after 2", b"last"]


async def test_the_same_message_id_is_stored_once(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    header = {"Nats-Msg-Id": "one"}
    assert await bus.store(f"{kept}.x", b"first", header) == 1
    await bus.publish(f"{kept}.x", b"second", header)
    assert await bus.store(f"{kept}.y", b"third", header) == 1
    assert await bus.store(f"{kept}.x", b"other", {"Nats-Msg-Id": "two"}) == 2
    assert await messages_of(buses, bus) == [b"first", b"other"]


async def test_a_full_stream_forgets_the_oldest(buses, bus, kept):
    await bus.ensure_stream(buses.spec(messages_per_subject_max=2))
    await fill(bus, kept, range(5))
    await bus.store(f"{kept}.other", b"other")
    held = await bus.stream_state(buses.prefix)
    assert (held.first, held.last, held.messages) == (4, 6, 3)
    assert await messages_of(buses, bus) == [b"3", b"4", b"other"]


async def test_a_full_stream_that_discards_what_is_new_refuses(buses, bus, kept):
    await bus.ensure_stream(buses.spec(messages_per_subject_max=2, discard_new=True))
    await fill(bus, kept, range(2))
    with pytest.raises(BusError):
        await fill(bus, kept, [3])
    await bus.store(f"{kept}.other", b"other")
    assert await messages_of(buses, bus) == [b"0", b"1", b"other"]


async def test_a_stream_holds_no_more_bytes_than_allowed(buses, bus, kept):
    await bus.ensure_stream(buses.spec(bytes_max=8192, discard_new=True))
    for _ in range(7):
        await bus.store(f"{kept}.x", b"x" * 1000)
    with pytest.raises(BusError):
        await bus.store(f"{kept}.x", b"x" * 2000)
    assert 1 <= (await bus.stream_state(buses.prefix)).messages <= 8


async def test_a_message_too_large_is_not_stored(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    with pytest.raises(BusError, match=f"at most {PAYLOAD_BYTES_MAX} bytes"):
        await bus.store(f"{kept}.x", b"x" * (PAYLOAD_BYTES_MAX + 1))
    assert (await bus.stream_state(buses.prefix)).messages == 0


async def test_what_is_stored_is_heard_by_subscribers_too(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    heard = Heard()
    await bus.subscribe(f"{kept}.>", heard)
    await bus.store(f"{kept}.x", b"stored")
    assert await heard.count(1) == [b"stored"]


async def test_a_consumer_gets_everything_in_order_with_headers_and_sequences(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    await bus.store(f"{kept}.x", b"0", {"ce-id": "a"})
    heard = Heard()
    await bus.consume(buses.prefix, "worker", heard)
    await fill(bus, kept, range(1, 20))
    assert await heard.count(20) == [b"%d" % n for n in range(20)]
    assert [message.sequence for message in heard.messages] == list(range(1, 21))
    assert heard.messages[0].subject == f"{kept}.x"
    assert heard.messages[0].headers["ce-id"] == "a"


async def test_a_consumer_of_a_subject_gets_nothing_else(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    heard = Heard()
    await bus.consume(buses.prefix, "worker", heard, f"{kept}.*.job.*")
    for tail in ("a.job.submit", "a.node.change", "b.job.cancel", "b.job"):
        await bus.store(f"{kept}.{tail}", tail.encode())
    await bus.store(f"{kept}.c.job.last", b"last")
    assert await heard.has(b"last") == [b"a.job.submit", b"b.job.cancel", b"last"]


async def test_two_consumers_each_get_everything(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    one, two = Heard(), Heard()
    await bus.consume(buses.prefix, "one", one)
    await bus.consume(buses.prefix, "two", two)
    await fill(bus, kept, range(3))
    assert await one.count(3) == await two.count(3) == [b"0", b"1", b"2"]


async def test_a_message_whose_handler_failed_comes_again_before_the_next(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    tries = []

    def fails(message):
        tries.append(message.data)
        return tries.count(b"1") == 1 and message.data == b"1"

    heard = Heard(fails)
    await bus.consume(buses.prefix, "worker", heard)
    await fill(bus, kept, range(3))
    assert await heard.count(4) == [b"0", b"1", b"1", b"2"]
    assert heard.messages[1].sequence == heard.messages[2].sequence


async def test_a_consumer_made_again_goes_on_where_the_last_one_was(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    await fill(bus, kept, range(3))
    first, second = Heard(), Heard()
    stopping = await bus.consume(buses.prefix, "worker", first)
    await first.count(3)
    await stopping.stop()
    await fill(bus, kept, range(3, 5))
    other = await buses.client()
    await other.consume(buses.prefix, "worker", second)
    assert await second.count(2) == [b"3", b"4"]
    assert first.data == [b"0", b"1", b"2"]


async def test_a_message_in_work_when_its_consumer_stops_comes_again(buses, bus, kept):
    await bus.ensure_stream(buses.spec())
    await fill(bus, kept, range(2))
    begun = asyncio.Event()

    async def never_ends(_message):
        begun.set()
        await asyncio.Event().wait()

    stopping = await bus.consume(buses.prefix, "worker", never_ends)
    await begun.wait()
    await stopping.stop()
    heard = Heard()
    await bus.consume(buses.prefix, "worker", heard)
    assert await heard.count(2) == [b"0", b"1"]


async def test_a_consumer_waits_for_its_stream_and_outlives_it(buses, bus, kept):
    heard = Heard()
    await bus.consume(buses.prefix, "worker", heard)
    await bus.ensure_stream(buses.spec())
    await fill(bus, kept, range(2))
    assert await heard.count(2) == [b"0", b"1"]
    await bus.delete_stream(buses.prefix)
    await bus.ensure_stream(buses.spec())
    await fill(bus, kept, range(7, 9))
    assert await heard.count(4) == [b"0", b"1", b"7", b"8"]


async def test_a_message_of_a_work_queue_goes_when_it_was_worked_on(buses, bus, kept):
    await bus.ensure_stream(buses.spec(is_work_queue=True, discard_new=True, bytes_max=100_000))
    body = b"x" * 40_000
    for _ in range(2):
        await bus.store(f"{kept}.x", body)
    with pytest.raises(BusError):
        await bus.store(f"{kept}.x", body)
    heard = Heard()
    await bus.consume(buses.prefix, "worker", heard)
    await heard.count(2)
    async with asyncio.timeout(STORED_S):
        while (await bus.stream_state(buses.prefix)).messages:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await bus.store(f"{kept}.x", body)
    await heard.count(3)


async def test_a_receipt_is_given_for_what_is_kept_and_for_nothing_else(buses, bus, kept):
    receipts = (kept, f"{buses.prefix}.receipts")
    limits = {"discard_new": True, "bytes_max": 100_000, "acknowledged": False}
    await bus.ensure_stream(buses.spec(receipts=receipts, **limits))
    heard = Heard()
    await bus.subscribe(f"{receipts[1]}.>", heard)
    for key, size in (("a", 40_000), ("b", 40_000), ("too-much", 40_000), ("c", 10)):
        await bus.publish(f"{kept}.{key}", b"x" * size, {"ce-id": key})
    assert await heard.count(3) == [b"", b"", b""]
    assert [message.headers["ce-id"] for message in heard.messages] == ["a", "b", "c"]
    told = [message.subject.removeprefix(f"{receipts[1]}.") for message in heard.messages]
    assert told == ["a", "b", "c"]


@pytest.mark.security
async def test_a_stream_takes_no_message_larger_than_it_may_be(buses, bus, kept):
    await bus.ensure_stream(buses.spec(message_bytes_max=10_000))
    with pytest.raises(BusError):
        await bus.store(f"{kept}.x", b"x" * 10_001)
    assert await bus.store(f"{kept}.x", b"x" * 9_000) == 1
