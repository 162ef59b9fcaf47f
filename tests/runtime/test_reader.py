"""Following the log over a bus that may lose, repeat, reorder and lie."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headrace.bus import subjects
from headrace.bus.memory import MemoryBus
from headrace.events.jobs import JobStarted
from headrace.runtime import log_messages
from headrace.runtime.reader import POLL_S, UNWOKEN_S, LogReader
from headrace.store.interface import Forked, Unavailable

from .rig import Rig, eligible, virtual


class Follower:
    """A reader and what it handed on."""

    def __init__(self, rig, wakes=None):
        self.rig = rig
        bus = MemoryBus(rig.broker, "reader")
        self.reader = LogReader(rig.new_store("reader"), bus, wakes)
        self.positions = []

    async def start(self):
        await self.reader.start()
        await self.take()
        return self

    async def take(self):
        events = await self.reader.take()
        self.positions.extend(event.position for event in events)

    async def until(self, position):
        """Follow up to a position; the seconds that took."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.timeout(30):
            while self.reader.position < position:
                await self.reader.wait()
                await self.take()
        return loop.time() - began_s

    async def hears(self, *events):
        for event in events:
            await self.rig.bus.publish(subjects.log(event.type), log_messages.encode(event))

    async def hears_together(self, *events):
        message = log_messages.encode(*events)
        await self.rig.bus.publish(subjects.log(events[0].type), message)


async def following():
    rig = Rig()
    return rig, await Follower(rig).start()


async def appended(rig, count):
    return await rig.append(*(eligible(n) for n in range(count)))


@virtual
async def test_what_is_heard_is_handed_on_at_once_without_reading():
    rig, follower = await following()
    rig.fails.add("reader read.before")
    await follower.hears(*await appended(rig, 5))
    assert await follower.until(5) < POLL_S / 2
    assert follower.positions == [1, 2, 3, 4, 5]
    assert rig.fails == {"reader read.before"}
    assert follower.reader.healed == 0


@virtual
async def test_what_changes_nothing_is_handed_on_with_what_does_and_else_soon():
    rig = Rig()
    follower = await Follower(rig, wakes={"job.started.v1"}).start()
    started = JobStarted(job="j", project="ads", attempt=1)
    events = [*await appended(rig, 2), *await rig.append(started)]
    await follower.hears(*events[:2])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(UNWOKEN_S / 2):
            await follower.reader.wait()
    await follower.hears(events[2])
    assert await follower.until(3) == 0
    await follower.hears(*await appended(rig, 1))
    assert await follower.until(4) <= UNWOKEN_S
    assert follower.positions == [1, 2, 3, 4]
    assert follower.reader.healed == 0


@virtual
async def test_what_changes_something_does_not_wait_when_it_came_too_early():
    rig = Rig()
    follower = await Follower(rig, wakes={"job.started.v1"}).start()
    started = JobStarted(job="j", project="ads", attempt=1)
    one, two = [*await appended(rig, 1), *await rig.append(started)]
    await follower.hears(two, one)
    assert await follower.until(2) == 0
    assert follower.reader.healed == 0


@virtual
async def test_a_gap_is_read_from_the_store_at_once():
    rig, follower = await following()
    one, _lost, three = await appended(rig, 3)
    await follower.hears(one, three)
    assert await follower.until(3) < POLL_S / 2
    assert follower.positions == [1, 2, 3]
    assert follower.reader.healed == 1


@virtual
async def test_several_in_one_message_are_handed_on_at_once():
    rig, follower = await following()
    rig.fails.add("reader read.before")
    events = await appended(rig, 6)
    await follower.hears_together(*events[3:])
    await follower.hears_together(*events[:4])
    assert await follower.until(6) < POLL_S / 2
    assert follower.positions == [1, 2, 3, 4, 5, 6]
    assert rig.fails == {"reader read.before"}


@virtual
async def test_a_gap_before_several_in_one_message_is_read_at_once():
    rig, follower = await following()
    _lost, *others = await appended(rig, 4)
    await follower.hears_together(*others)
    assert await follower.until(4) < POLL_S / 2
    assert follower.positions == [1, 2, 3, 4]
    assert follower.reader.healed == 1


@virtual
async def test_repeated_and_reordered_messages_are_handed_on_once_and_in_order():
    rig, follower = await following()
    one, two, three, four = await appended(rig, 4)
    await follower.hears(two, one, one, four, two, three, one, four)
    await follower.until(4)
    await follower.hears(one, four, two)
    await asyncio.sleep(3 * POLL_S)
    await follower.take()
    assert follower.positions == [1, 2, 3, 4]


@pytest.mark.parametrize("position", [1, 2, 4])
@virtual
async def test_a_forged_message_is_not_believed(position):
    rig, follower = await following()
    events = await appended(rig, 3)
    forged = msgspec.structs.replace(events[0], position=position, data=b'{"job":"forged"}')
    await follower.hears(forged)
    follower.reader.wake()
    await follower.reader.wait()
    await follower.take()
    await follower.hears(*events, forged)
    await follower.until(3)
    (last,) = await rig.append(eligible(9))
    await follower.hears(last)
    await follower.until(4)
    assert follower.positions == [1, 2, 3, 4]
    assert follower.reader.hash == rig.log.events[-1].hash


@virtual
async def test_garbage_on_the_logs_subject_harms_nobody():
    rig, follower = await following()
    for garbage in (b"", b"\xff", b"{}", b"\x90", b"\x91\xc0"):
        await rig.bus.publish("headrace.log.job.eligible.v1", garbage)
    await follower.hears(*await appended(rig, 2))
    await follower.until(2)
    assert follower.positions == [1, 2]


@virtual
async def test_silence_is_not_believed_for_long():
    rig, follower = await following()
    await appended(rig, 2)
    assert await follower.until(2) <= POLL_S + 0.01
    rig.broker.disconnect("reader")
    await appended(rig, 2)
    assert await follower.until(4) <= 2 * POLL_S
    rig.broker.connect("reader")
    await appended(rig, 1)
    await follower.until(5)
    assert follower.positions == [1, 2, 3, 4, 5]


@virtual
async def test_a_store_that_is_away_loses_nothing():
    rig, follower = await following()
    await appended(rig, 3)
    rig.fails.add("reader read.before")
    with pytest.raises(Unavailable):
        await follower.until(3)
    await follower.until(3)
    assert follower.positions == [1, 2, 3]


@virtual
async def test_another_history_in_the_store_is_told():
    rig, follower = await following()
    await appended(rig, 3)
    await follower.until(3)
    rig.lose_the_log()  # restored from before, then grown differently
    await asyncio.sleep(1)
    await appended(rig, 5)
    with pytest.raises(Forked, match="position 4 does not follow 3"):
        await follower.until(5)
    assert follower.positions == [1, 2, 3]


@virtual
async def test_a_long_log_is_read_to_its_end_in_order():
    rig = Rig()
    for _ in range(11):
        await appended(rig, 500)
    follower = await Follower(rig).start()
    await follower.until(5_500)
    assert follower.positions == list(range(1, 5_501))


@virtual
async def test_what_was_appended_here_is_next_in_line_or_makes_the_gap_be_read():
    rig, follower = await following()
    own = await appended(rig, 2)
    assert [event.position for event in follower.reader.own(own)] == [1, 2]
    assert not follower.reader.due
    await appended(rig, 1)
    own = await appended(rig, 1)
    assert follower.reader.own(own) == []
    assert follower.reader.due
    await follower.take()
    assert follower.positions == [3, 4]


@virtual
async def test_a_projection_gets_every_entry_from_any_position_on():
    rig = Rig()
    await appended(rig, 5)
    for after in (0, 3, 5):
        reader = LogReader(rig.new_store(), MemoryBus(rig.broker, f"projection-{after}"))
        await rig.append(eligible(7))
        batches = reader.entries(after)
        seen = [entry.position for entry in await anext(batches)]
        assert seen == list(range(after + 1, len(rig.log.events) + 1))
        await batches.aclose()
        await reader.stop()
