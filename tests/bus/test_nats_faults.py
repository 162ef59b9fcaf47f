"""What a connection makes of a server that dies, comes back, hangs, or does not know it any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time

import pytest
from tests.conftest import NatsServer
from tests.contract.buses import WAIT_S, Heard

from headrace.bus import nats as driver
from headrace.bus import nats_streams
from headrace.bus.interface import BusError, Message, NotConnected, StreamSpec
from headrace.bus.nats import NatsBus

KEPT = StreamSpec(name="KEPT", subjects=("kept.>",), age_s_max=3600, bytes_max=2**20)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    """Consumers see sooner that their server was away; a server that stands still is waited for."""
    monkeypatch.setattr(nats_streams, "FETCH_S", 0.5)
    monkeypatch.setattr(nats_streams, "JETSTREAM_S", WAIT_S)


async def until(condition):
    """Wait until `condition()` holds."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def in_thread(call):
    """Servers are started and ended by blocking calls."""
    await asyncio.get_running_loop().run_in_executor(None, call)


async def cut(server, *buses):
    await in_thread(server.kill)
    await until(lambda: not any(bus.connected for bus in buses))


async def back(server, *buses):
    await in_thread(server.start)
    await until(lambda: all(bus.connected for bus in buses))


async def test_after_a_kill_and_a_restart_everybody_hears_again(own_nats, connect):
    one, two = await connect(own_nats.url), await connect(own_nats.url)
    heard = Heard()

    async def answer(message):
        await two.publish(message.reply, b"here")

    await one.subscribe("a.>", heard)
    await two.subscribe("ask", answer, "group")
    await cut(own_nats, one, two)
    await back(own_nats, one, two)
    assert (await one.request("ask", b"", timeout_s=WAIT_S)).data == b"here"
    await two.publish("a.b", b"again")
    assert await heard.count(1) == [b"again"]
    assert (one.counters["reconnects"], two.counters["reconnects"]) == (1, 1)


async def test_what_cannot_be_sent_is_refused_and_never_arrives_later(own_nats, connect):
    speaking, listening = await connect(own_nats.url), await connect(own_nats.url)
    heard = Heard()
    await listening.subscribe("a", heard)
    await cut(own_nats, speaking, listening)
    with pytest.raises(NotConnected):
        await speaking.publish("a", b"while away")
    with pytest.raises(NotConnected):
        await speaking.request("a", b"asked while away")
    with pytest.raises(NotConnected):
        await speaking.store("a", b"kept while away")
    await back(own_nats, speaking, listening)
    await speaking.publish("a", b"after")
    assert await heard.has(b"after") == [b"after"]


async def test_what_is_subscribed_while_away_is_heard_when_back(own_nats, connect):
    one, two = await connect(own_nats.url), await connect(own_nats.url)
    await cut(own_nats, one, two)
    heard = Heard()
    try:
        await one.subscribe("a", heard)
    except BusError:  # or it is said that it is not
        await back(own_nats, one, two)
        await one.subscribe("a", heard)
    else:
        await back(own_nats, one, two)
    await two.publish("a", b"here")
    assert await heard.count(1) == [b"here"]


async def test_a_consumer_goes_on_after_a_kill_and_a_restart(own_nats, connect):
    one, two = await connect(own_nats.url), await connect(own_nats.url)
    await one.ensure_stream(KEPT)
    heard = Heard()
    await one.consume("KEPT", "worker", heard)
    await two.store("kept.a", b"before")
    await heard.count(1)
    await cut(own_nats, one, two)
    await back(own_nats, one, two)
    await two.store("kept.a", b"after")
    data = await heard.has(b"after")
    assert data.index(b"before") < data.index(b"after")


async def test_a_consumer_survives_the_loss_of_everything_kept(own_nats, connect):
    bus = await connect(own_nats.url)
    await bus.ensure_stream(KEPT)
    heard = Heard()
    await bus.consume("KEPT", "worker", heard)
    await bus.store("kept.a", b"before")
    await heard.count(1)
    await in_thread(own_nats.wipe)
    await until(lambda: bus.counters["reconnects"] and bus.connected)
    await bus.ensure_stream(KEPT)
    await bus.store("kept.a", b"after")
    assert await heard.has(b"after") == [b"before", b"after"]


async def test_what_a_dead_consumer_worked_on_comes_to_the_next(own_nats, connect, monkeypatch):
    monkeypatch.setattr(nats_streams, "ACK_WAIT_S", 0.5)
    dying, living = await connect(own_nats.url), await connect(own_nats.url)
    await dying.ensure_stream(KEPT)
    await dying.store("kept.a", b"work")
    begun, heard = Heard(), Heard()

    async def never_ends(message):
        await begun(message)
        await asyncio.Event().wait()

    await dying.consume("KEPT", "worker", never_ends)
    await begun.count(1)
    await living.consume("KEPT", "worker", heard)
    await dying._client._close(dying._client.CLOSED)  # as when its process is killed
    assert await heard.count(1) == [b"work"]


async def test_what_takes_long_is_not_given_to_somebody_else(own_nats, connect, monkeypatch):
    monkeypatch.setattr(nats_streams, "ACK_WAIT_S", 0.3)
    bus, other = await connect(own_nats.url), await connect(own_nats.url)
    await bus.ensure_stream(KEPT)
    both, acknowledged = Heard(), Heard()
    await other.subscribe("$JS.ACK.KEPT.worker.>", acknowledged)

    async def take(message):
        await both(message)
        if message.data == b"long" and len(both.messages) == 1:
            await acknowledged.until(lambda said: said.count(b"+WPI") > 3)  # longer than the wait

    await bus.store("kept.a", b"long")
    await bus.store("kept.a", b"next")
    await bus.consume("KEPT", "worker", take)
    await other.consume("KEPT", "worker", take)
    assert (await both.has(b"next"))[0] == b"long"
    assert set(acknowledged.data[:4]) == {b"+WPI"}, "it was said before it was done"


async def hang_and_wake(server, connect):
    """A server that takes connections and says nothing, then goes on: noticed, then healed."""
    bus, speaking = await connect(server.url), await connect(server.url)
    heard = Heard()
    await bus.subscribe("a", heard)
    os.kill(server.process.pid, signal.SIGSTOP)
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(WAIT_S):
            while bus.connected or speaking.connected:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        noticed_s = time.monotonic() - began_s
        with pytest.raises(NotConnected):
            await bus.publish("a", b"")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    async with asyncio.timeout(WAIT_S):
        while not heard.data:  # it may seem to hang once more, on a busy machine
            with contextlib.suppress(NotConnected):
                await speaking.publish("a", b"awake")
            await asyncio.sleep(0.01)
    assert set(heard.data) == {b"awake"}
    return noticed_s


async def test_a_server_that_hangs_is_noticed_by_its_silence(own_nats, connect, monkeypatch):
    monkeypatch.setattr(
        driver, "PING_S", 0.5
    )  # shorter, and a busy machine looks like one that hangs
    monkeypatch.setattr(driver, "CONNECT_S", 3)
    await hang_and_wake(own_nats, connect)


@pytest.mark.chaos
async def test_a_server_that_hangs_is_noticed_within_three_pings(own_nats, connect):
    assert await hang_and_wake(own_nats, connect) <= 3 * driver.PING_S + 5


async def test_who_is_thrown_out_for_good_is_told_once(server_folder, connect):
    base = server_folder / "nats-strict"
    server = NatsServer(base, "max_subscriptions: 2")  # beyond it the client library closes
    lost = Heard()
    loop = asyncio.get_running_loop()
    try:
        bus = await connect(
            server.url, on_lost=lambda: loop.create_task(lost(Message(subject="", data=b"lost")))
        )
        with contextlib.suppress(BusError):
            for _ in range(3):
                await bus.subscribe("a", Heard())
        await lost.count(1)
        assert not bus.connected
        with pytest.raises(NotConnected):
            await bus.publish("a", b"")
        await bus.close()
        assert lost.data == [b"lost"]
    finally:
        server.stop()
        shutil.rmtree(base, ignore_errors=True)


@pytest.mark.parametrize("server_is", ["there", "gone", "hanging"])
async def test_closing_takes_two_seconds_at_most_and_is_no_loss(own_nats, server_is, monkeypatch):
    assert driver.FLUSH_S + driver.CLOSE_S <= 2, "a supervisor waits for it"
    for module, limit in (
        (driver, "CONNECT_S"), (driver, "PING_S"),
        (nats_streams, "JETSTREAM_S"), (nats_streams, "FETCH_S"),
    ):  # fmt: skip
        monkeypatch.setattr(module, limit, 3_600)  # so it is none of them that ends it
    lost = []
    bus = await NatsBus.connect(own_nats.url, on_lost=lambda: lost.append(1))
    await bus.ensure_stream(KEPT)
    await bus.consume("KEPT", "worker", Heard())
    await bus.subscribe("a", Heard())
    if server_is == "gone":
        await cut(own_nats, bus)
    if server_is == "hanging":
        os.kill(own_nats.process.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(WAIT_S):
            await bus.close()
    finally:
        if server_is == "hanging":
            os.kill(own_nats.process.pid, signal.SIGCONT)
    assert not bus.connected
    assert lost == []
