"""What every bus promises of messages that nobody keeps."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.buses import WAIT_S, Heard

from headrace.bus.interface import PAYLOAD_BYTES_MAX, BusError, NoReply


@pytest.fixture
async def bus(buses):
    return await buses.client()


@pytest.fixture
async def other(buses):
    return await buses.client()


async def listen(bus, subject, handler=None, group=""):
    heard = handler or Heard()
    await bus.subscribe(subject, heard, group)
    return heard


def answering(bus, data):
    async def answer(message):
        await bus.publish(message.reply, data)

    return answer


async def test_a_message_reaches_every_subscriber_with_its_headers(buses, bus, other):
    subject = f"{buses.prefix}.a"
    one, two = await listen(bus, subject), await listen(other, subject)
    await bus.publish(subject, b"said", {"ce-id": "7"})
    for heard in (one, two):
        await heard.count(1)
        (message,) = heard.messages
        assert (message.subject, message.data, dict(message.headers)) == (
            subject,
            b"said",
            {"ce-id": "7"},
        )
        assert (message.reply, message.sequence) == ("", 0)


async def test_wildcards_hear_what_matches_and_nothing_else(buses, bus, other):
    prefix = buses.prefix
    star, rest = await listen(bus, f"{prefix}.*.end"), await listen(bus, f"{prefix}.tree.>")
    for tail in ("a.end", "b.end", "a.b.end", "end", "tree", "tree.x", "tree.x.y", "a.last"):
        await other.publish(f"{prefix}.{tail}", tail.encode())
    await other.publish(f"{prefix}.marker.end", b"marker")
    await other.publish(f"{prefix}.tree.marker", b"marker")
    assert await star.has(b"marker") == [b"a.end", b"b.end", b"marker"]
    assert await rest.has(b"marker") == [b"tree.x", b"tree.x.y", b"marker"]


async def test_messages_of_one_sender_arrive_in_order(buses, bus, other):
    heard = await listen(bus, f"{buses.prefix}.>")
    expected = [str(number).encode() for number in range(500)]
    for data in expected:
        await other.publish(f"{buses.prefix}.x", data)
    assert await heard.count(500) == expected


async def test_a_group_shares_messages_and_each_goes_to_one_member(buses, bus, other):
    subject, heard, members = f"{buses.prefix}.work", Heard(), set()

    def member(name):
        async def take(message):
            members.add(name)
            await heard(message)

        return take

    await bus.subscribe(subject, member("one"), "workers")
    await other.subscribe(subject, member("two"), "workers")
    everyone = await listen(bus, subject)
    for number in range(100):
        await bus.publish(subject, b"%d" % number)
    assert sorted(await heard.count(100)) == sorted(await everyone.count(100))
    assert members == {"one", "two"}


async def test_a_request_gets_its_own_answer(buses, bus, other):
    async def answer(message):
        await other.publish(message.reply, b"to " + message.data, {"n": "1"})

    await other.subscribe(f"{buses.prefix}.ask", answer)
    asked = [bus.request(f"{buses.prefix}.ask", b"%d" % n, timeout_s=WAIT_S) for n in range(20)]
    answers = await asyncio.gather(*asked)
    assert [answer.data for answer in answers] == [b"to %d" % n for n in range(20)]
    assert dict(answers[0].headers) == {"n": "1"}


async def test_a_request_that_nobody_listens_to_fails_at_once(buses, bus):
    with pytest.raises(NoReply, match="nobody listens"):
        await bus.request(f"{buses.prefix}.nobody", b"", timeout_s=WAIT_S)


async def test_a_request_that_is_not_answered_fails_in_time(buses, bus, other):
    heard = await listen(other, f"{buses.prefix}.ask")
    with pytest.raises(NoReply):
        await bus.request(f"{buses.prefix}.ask", b"x", timeout_s=0.05)
    assert await heard.count(1) == [b"x"]


async def test_an_answer_that_comes_too_late_is_nobody_elses(buses, bus, other):
    late = []

    async def keep(message):
        if message.data == b"late":
            late.append(message)
        else:
            await other.publish(late[0].reply, b"late")
            await other.publish(message.reply, b"in time")

    await other.subscribe(f"{buses.prefix}.ask", keep)
    with pytest.raises(NoReply):
        await bus.request(f"{buses.prefix}.ask", b"late", timeout_s=0.05)
    answer = await bus.request(f"{buses.prefix}.ask", b"next", timeout_s=WAIT_S)
    assert answer.data == b"in time"


async def test_a_failing_handler_is_counted_and_hears_the_next_message(buses, bus, other, caplog):
    heard = Heard(fails=lambda message: message.data == b"bad")
    await listen(bus, f"{buses.prefix}.x", heard)
    for data in (b"bad", b"good"):
        await other.publish(f"{buses.prefix}.x", data)
    assert await heard.count(2) == [b"bad", b"good"]
    assert bus.counters["handler_errors"] == 1
    (line,) = [r.getMessage() for r in caplog.records if "handler failed" in r.getMessage()]
    assert line.endswith("ValueError: cannot take b'bad'")


async def test_a_handler_whose_own_wait_was_cancelled_hears_the_next_message(buses, bus, other):
    heard = Heard()

    async def take(message):
        await heard(message)
        if message.data == b"waits":
            never = asyncio.get_running_loop().create_future()
            never.cancel()
            await never

    await bus.subscribe(f"{buses.prefix}.x", take)
    for data in (b"waits", b"next"):
        await other.publish(f"{buses.prefix}.x", data)
    assert await heard.count(2) == [b"waits", b"next"]


async def test_who_only_takes_note_hears_every_message_in_order(buses, bus, other):
    subject, heard = f"{buses.prefix}.noted", Heard(lambda message: message.data == b"3")
    noting = await bus.listen(subject, heard.note)
    for number in range(50):
        await other.publish(subject, str(number).encode(), {"ce-id": str(number)})
    assert await heard.count(50) == [str(number).encode() for number in range(50)]
    assert [dict(each.headers) for each in heard.messages] == [
        {"ce-id": str(number)} for number in range(50)
    ]
    assert bus.counters["handler_errors"] == 1
    await noting.stop()
    again = await listen(bus, subject)
    await other.publish(subject, b"after")
    assert await again.count(1) == [b"after"]
    assert len(heard.messages) == 50


async def test_a_slow_handler_is_called_with_one_message_after_the_other(buses, bus, other):
    running, most, heard = 0, 0, Heard()

    async def take(message):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        await heard(message)
        running -= 1

    await bus.subscribe(f"{buses.prefix}.x", take)
    for number in range(20):
        await other.publish(f"{buses.prefix}.x", b"%d" % number)
    await heard.count(20)
    assert most == 1


async def test_a_message_of_the_largest_size_arrives_and_a_larger_one_is_refused(buses, bus, other):
    heard = await listen(other, f"{buses.prefix}.x")
    largest = b"x" * PAYLOAD_BYTES_MAX
    await bus.publish(f"{buses.prefix}.x", largest)
    with pytest.raises(BusError, match=f"at most {PAYLOAD_BYTES_MAX} bytes"):
        await bus.publish(f"{buses.prefix}.x", largest + b"x")
    with pytest.raises(BusError, match=f"at most {PAYLOAD_BYTES_MAX} bytes"):
        await bus.request(f"{buses.prefix}.x", largest + b"x")
    await bus.publish(f"{buses.prefix}.x", b"after")
    assert await heard.count(2) == [largest, b"after"]


async def test_a_stopped_subscription_hears_nothing_more(buses, bus, other):
    stopped, going_on = Heard(), await listen(bus, f"{buses.prefix}.x")
    subscription = await bus.subscribe(f"{buses.prefix}.x", stopped)
    await other.publish(f"{buses.prefix}.x", b"before")
    await stopped.count(1)
    await subscription.stop()
    await subscription.stop()
    await other.publish(f"{buses.prefix}.x", b"after")
    await going_on.has(b"after")
    assert stopped.data == [b"before"]


async def test_when_stop_returns_the_handler_does_not_run_any_more(buses, bus, other):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def take(_message):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)  # as clean-up may take
            ended.set()

    subscription = await bus.subscribe(f"{buses.prefix}.x", take)
    await other.publish(f"{buses.prefix}.x", b"")
    async with asyncio.timeout(WAIT_S):
        await begun.wait()
    await subscription.stop()
    assert ended.is_set()


async def test_a_closed_bus_sends_and_hears_nothing(buses, bus, other):
    heard, watching = (
        await listen(other, f"{buses.prefix}.x"),
        await listen(bus, f"{buses.prefix}.x"),
    )
    await other.close()
    assert not other.connected
    with pytest.raises(BusError):
        await other.publish(f"{buses.prefix}.x", b"from the closed one")
    await bus.publish(f"{buses.prefix}.x", b"last")
    assert await watching.has(b"last") == [b"last"]
    assert heard.data == []


async def test_what_was_published_just_before_closing_arrives(buses, bus, other):
    heard = await listen(bus, f"{buses.prefix}.x")
    expected = [b"%d" % number for number in range(200)]
    for data in expected:
        await other.publish(f"{buses.prefix}.x", data)
    await other.close()
    assert await heard.count(200) == expected
