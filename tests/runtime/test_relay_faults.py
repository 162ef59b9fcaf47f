"""What a relay makes of an event that it cannot tell, and of a stream that vanishes alone."""

from __future__ import annotations

import asyncio
import logging

import pytest

from headrace.bus import subjects
from headrace.events import Header, encode
from headrace.runtime.relay import POLL_S
from headrace.store.interface import NewEvent

from .rig import eligible, until, virtual
from .test_relay import Relays, fill


async def append_raw(rig, **parts):
    """An event with bytes of one's own, as a newer or a broken writer would leave it."""
    whole = {
        "stream": "job-j",
        "type": "job.eligible.v1",
        "project": "ads",
        "header": encode(Header(project="ads", correlation="j")),
        "data": encode(eligible(1)),
    } | parts
    await rig.append()
    head = await rig.store.head()
    await rig.store.append("quota", rig._epoch, head.position, head.hash, [NewEvent(**whole)])


@pytest.mark.parametrize(
    "parts",
    [
        {"data": b'{"type":"job.eligible.v1","job":'},
        {"data": b'{"type":"job.eligible.v1","job":7,"project":"ads"}'},
        {"header": b"{"},
        {"project": "not.a.token"},
        {"project": "*"},
    ],
)
def test_an_event_that_cannot_be_told_is_copied_and_what_follows_is_told(parts, caplog):
    caplog.set_level(logging.WARNING)

    @virtual
    async def history():
        relays = Relays()
        await fill(relays.rig, 2)
        await append_raw(relays.rig, **parts)
        await fill(relays.rig, 2)
        await relays.start()
        assert list((await relays.caught_up()).values()) == relays.rig.log.events
        assert [message.headers["ce-id"] for message in relays.told()] == ["1", "2", "4", "5"]

    history()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("event not told position=3 type=job.eligible.v1 error=")


@pytest.mark.parametrize("name", ["EVENTS", "REQUESTS-ads", "DEADLETTER"])
@pytest.mark.parametrize("is_busy", [False, True])
@virtual
async def test_a_stream_that_vanishes_alone_is_made_again(name, is_busy):
    relays = Relays()
    relay = await relays.start()
    await fill(relays.rig, 3)
    await relays.caught_up()
    await relays.rig.bus.publish(subjects.POSTING, b'["ads"]')
    await until(lambda: name in relays.rig.broker.streams)
    await relays.rig.bus.delete_stream(name)
    end_s = asyncio.get_running_loop().time() + 3 * POLL_S

    async def work():
        while True:
            await fill(relays.rig, 1)
            relay.heard(relays.rig.log.events[-1:])
            await asyncio.sleep(0.1)

    working = asyncio.create_task(work() if is_busy else asyncio.Event().wait())
    await until(
        lambda: name in relays.rig.broker.streams or asyncio.get_running_loop().time() > end_s
    )
    assert name in relays.rig.broker.streams
    working.cancel()
    assert list((await relays.caught_up()).values()) == relays.rig.log.events
