"""What strangers may send, and what a server that hangs leaves behind, does not reach a service."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from urllib.parse import urlsplit

import pytest
from tests.contract.buses import WAIT_S, Heard

from headrace.bus import nats as driver
from headrace.bus import nats_client
from headrace.bus.interface import BusError, NotConnected

STALLED_MESSAGES = 400  # more than the kernel takes for a server that does not read
STALLED_BYTES = 100_000


async def say(url, *lines):
    """Send raw lines of the protocol, as a client of one's own making could; until all is read."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    options = json.dumps({"verbose": False, "pedantic": False, "headers": True})
    writer.write(f"CONNECT {options}\r\n".encode() + b"".join(lines) + b"PING\r\n")
    async with asyncio.timeout(WAIT_S):
        while await reader.readline() != b"PONG\r\n":
            pass
    writer.close()
    await writer.wait_closed()


def framed(subject, reply=b"", header=b""):
    """A message "bad" on a subject, any bytes whatever."""
    to = b" " + reply if reply else b""
    if not header:
        return b"PUB %b%b 3\r\nbad\r\n" % (subject, to)
    return b"HPUB %b%b %d %d\r\n%bbad\r\n" % (subject, to, len(header), len(header) + 3, header)


@pytest.mark.parametrize(
    "bad",
    [
        framed(b"door.\xff\xfe"),
        framed(b"door.a", reply=b"\xff\xfe"),
        framed(b"door.a", header=b"NATS/1.0 \xff\xff\xff\r\n\r\n"),
        framed(b"door.a", header=b"NATS/1.0 503 \xff\xff\r\n\r\n"),
        framed(b"door.a\x0bb"),
        framed(b"door.a\x0b2"),
        framed(b"door.a\x0c2"),
        framed(b"door.a", reply=b"r\x0b9"),
        framed(b"door.a", reply=b"r\x0b9", header=b"NATS/1.0\r\nce-id: 1\r\n\r\n"),
        framed(b"door.a", header=b"NATS/1.0\r\n\xff: \xff\r\n:\r\nx\r\n\r\n"),
    ],
    ids=repr,
)
async def test_no_message_deafens_who_hears_it_or_reaches_another(nats_url, connect, caplog, bad):
    bus = await connect(nats_url)
    heard, elsewhere = Heard(), Heard()
    await bus.subscribe("door.>", heard)
    await bus.subscribe("elsewhere", elsewhere)
    await say(nats_url, bad, framed(b"door.end"), framed(b"elsewhere"))
    await heard.until(lambda _: heard.messages[-1:] and heard.messages[-1].subject == "door.end")
    assert [message.subject for message in (await heard_all(elsewhere))] == ["elsewhere"]
    assert bus.counters["reconnects"] == 0
    assert [record for record in caplog.records if record.exc_info] == []


async def heard_all(heard):
    await heard.count(1)
    return heard.messages


async def test_what_cannot_be_read_is_counted_and_said_once(nats_url, connect, caplog):
    bus = await connect(nats_url)
    heard = Heard()
    await bus.subscribe("door.>", heard)
    await say(
        nats_url, *(framed(b"door.%b\xff" % (b"x" * n)) for n in range(5)), framed(b"door.end")
    )
    await heard.count(1)
    assert bus.counters["undecodable"] == 5
    assert len([r for r in caplog.records if "cannot be read" in r.getMessage()]) == 1


@pytest.mark.parametrize(
    ("reply", "is_kept"),
    [
        (b"_SERVICES.abc.1", True),
        (b"_INBOX.abc.1", False),
        (b"_INBOX_pub_ads_etl.abc.1", False),
        (b"headrace.event.vision.job.finished.v1", False),
        (b"headrace.gateway.fleet.queue.apply", False),
        (b"headrace.log.job.admitted.v1", False),
        (b"$JS.API.STREAM.PURGE.LOG", False),
        (b"_INBOXES", False),
    ],
)
async def test_an_answer_goes_to_an_inbox_and_nowhere_else(nats_url, connect, reply, is_kept):
    bus = await connect(nats_url)
    heard = Heard()
    await bus.subscribe("door.ask", heard)
    await say(nats_url, framed(b"door.ask", reply=reply))
    await heard.count(1)
    assert heard.messages[0].reply == (reply.decode() if is_kept else "")


@pytest.mark.parametrize(
    ("subject", "own", "others"),
    [
        (
            "headrace.request.ads.etl.job.submit",
            "_INBOX_pub_ads_etl.a.b",
            ["_INBOX_pub_vision_etl.a.b", "_INBOX_pub_ads_etl2.a.b", "_INBOX_n1.a.b"],
        ),
        (
            "headrace.agent.n1.up.pull",
            "_INBOX_n1.a.b",
            ["_INBOX_n2.a.b", "_INBOX_n11.a.b", "_INBOX_pub_ads_etl.a.b"],
        ),
        ("headrace.agent.n1.up.files.get", "_INBOX_n1.a.b", ["_INBOX_n2.a.b"]),
        ("headrace.agent.n1.down.logs", "_SERVICES.gateway.a.b", ["_INBOX_n1.a.b"]),
        ("headrace.gateway.ads.job.submit", "_SERVICES.gateway.a.b", ["_INBOX_pub_ads_job.a.b"]),
        ("headrace.query.placement.why", "_SERVICES.gateway.a.b", ["_INBOX_n1.a.b"]),
    ],
)
async def test_an_answer_goes_to_an_inbox_of_who_may_ask_on_that_subject(
    nats_url, connect, subject, own, others
):
    bus = await connect(nats_url)
    heard = Heard()
    await bus.subscribe(subject, heard)
    replies = [own, *others, "headrace.log.job.admitted.v1"]
    if own.startswith("_INBOX"):
        replies.append("_SERVICES.gateway.a.b")
    await say(nats_url, *(framed(subject.encode(), reply=reply.encode()) for reply in replies))
    await heard.count(len(replies))
    assert [message.reply for message in heard.messages] == [own, *[""] * (len(replies) - 1)]


async def test_no_reply_subject_tells_the_next(nats_url, connect):
    asking, answering = await connect(nats_url), await connect(nats_url)
    replies = []

    async def answer(message):
        replies.append(message.reply)
        await answering.publish(message.reply, b"")

    await answering.subscribe("door.ask", answer)
    for _ in range(3):
        await asking.request("door.ask", b"", timeout_s=WAIT_S)
    inboxes = [asking._client.new_inbox() for _ in range(3)]
    names = [name.rpartition(".")[2] for name in (*replies, *inboxes)]
    assert all(len(name) == 22 for name in names)
    for before, after in itertools.pairwise(names):
        assert sum(a != b for a, b in zip(before, after, strict=True)) > 11, "drawn anew"


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def in_thread(call):
    await asyncio.get_running_loop().run_in_executor(None, call)


async def fill(bus):
    """Publish into a connection whose server does not read; whether it was refused in the end."""
    for _ in range(STALLED_MESSAGES):
        try:
            await bus.publish("stale", b"x" * STALLED_BYTES)
        except NotConnected:
            return True
        await asyncio.sleep(0)
    return False


async def test_what_a_hanging_server_did_not_take_is_not_sent_to_the_next(
    own_nats, connect, monkeypatch
):
    monkeypatch.setattr(nats_client, "UNSENT_BYTES_MAX", STALLED_MESSAGES * STALLED_BYTES)
    speaking = await connect(own_nats.url)
    os.kill(own_nats.process.pid, signal.SIGSTOP)
    await fill(speaking)
    assert speaking._client.pending_data_size > 0, "nothing waited, so nothing is tested"
    await in_thread(own_nats.kill)
    await in_thread(own_nats.start)
    listening = await connect(own_nats.url)
    heard = Heard()
    for subject in ("stale", "fresh"):
        await listening.subscribe(subject, heard)
    await until(lambda: speaking.connected and speaking.counters["reconnects"])
    await speaking.publish("fresh", b"fresh")
    assert await heard.has(b"fresh") == [b"fresh"]


async def test_only_so_much_waits_for_a_server_that_does_not_read(own_nats, connect, monkeypatch):
    monkeypatch.setattr(nats_client, "UNSENT_BYTES_MAX", 500_000)
    monkeypatch.setattr(nats_client, "ROOM_S", 0.1)
    bus = await connect(own_nats.url)
    os.kill(own_nats.process.pid, signal.SIGSTOP)
    try:
        assert await fill(bus)
        assert bus._client.pending_data_size <= 500_000 + 2 * STALLED_BYTES
    finally:
        os.kill(own_nats.process.pid, signal.SIGCONT)


async def test_a_burst_that_the_server_takes_is_sent_whole(nats_url, connect, monkeypatch):
    monkeypatch.setattr(nats_client, "ROOM_S", WAIT_S)
    monkeypatch.setattr(nats_client, "UNSENT_BYTES_MAX", 500_000)
    speaking, listening = await connect(nats_url), await connect(nats_url)
    heard = Heard()
    await listening.subscribe("burst", heard)
    for _ in range(100):
        await speaking.publish("burst", b"x" * STALLED_BYTES)
    assert len(await heard.count(100)) == 100


async def test_a_full_buffer_does_not_keep_a_dead_connection(
    own_nats, connect, monkeypatch, caplog
):
    monkeypatch.setattr(driver, "PING_S", 0.2)
    monkeypatch.setattr(driver, "CONNECT_S", 1)
    bus = await connect(own_nats.url)
    os.kill(own_nats.process.pid, signal.SIGSTOP)
    try:
        await fill(bus)
        await until(lambda: not bus.connected)
        await until(lambda: "bus error=TimeoutError" in caplog.text)  # it has tried to connect anew
        assert bus.counters["aborted"] == 0, "the watchdog had to help"
    finally:
        os.kill(own_nats.process.pid, signal.SIGCONT)
    await until(lambda: bus.connected)


async def test_a_connection_that_cannot_be_made_again_is_given_up(own_nats, tmp_path, monkeypatch):
    lost = asyncio.Event()
    bus = await driver.NatsBus.connect(own_nats.url, on_lost=lost.set)

    def unreadable():
        raise ValueError("a credential that was cut off while it was written")

    monkeypatch.setattr(bus._client, "_connect_command", unreadable)
    try:
        await in_thread(own_nats.restart)
        async with asyncio.timeout(WAIT_S):
            await lost.wait()
        with pytest.raises(BusError):
            await bus.publish("a", b"")
    finally:
        await bus.close()
