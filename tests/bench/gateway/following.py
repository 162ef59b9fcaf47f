"""Many followers of the events, while events come at a steady rate."""

from __future__ import annotations

import asyncio
import time

from tests.bench.agent import cpu_s
from tests.bench.gateway.history import Writer, live
from tests.bench.gateway.standing import TOKEN, Served, Servers
from tests.bench.printing import row

from headrace.bus import subjects
from headrace.bus.nats import NatsBus
from headrace.events import Event
from headrace.runtime import log_messages

FOLLOWERS = 200
EVENTS_PER_S = 500
BATCH = 10  # appended at once
SECONDS = 12
CATCHES_UP_S_MAX = 60


class Follower(asyncio.Protocol):
    """Counts the events that come."""

    def __init__(self, port: int, after: int) -> None:
        self._port, self._after = port, after
        self.events = 0
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(
            f"GET /v1/events?after={self._after} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        self.events += data.count(b"\ndata:")
        self._rest = data[-5:] if not data.endswith(b"\n") else b""


async def measure(served: Served, at: Servers, writer: Writer) -> None:
    """Follow for `SECONDS`, all from the head on."""
    assert writer.head is not None
    loop = asyncio.get_running_loop()
    followers = [Follower(served.port, writer.head.position) for _ in range(FOLLOWERS)]
    opened = [
        (await loop.create_connection(lambda f=f: f, "127.0.0.1", served.port))[0]  # type: ignore[misc]
        for f in followers
    ]
    bus = await NatsBus.connect(at.nats_url)
    await asyncio.sleep(2)
    before_s, began = cpu_s(served.pid), time.monotonic()
    sent = await _events(writer, bus)
    wall_s = time.monotonic() - began
    percent = (cpu_s(served.pid) - before_s) / wall_s * 100
    deadline_s = time.monotonic() + CATCHES_UP_S_MAX
    while (  # noqa: ASYNC110 -- a bench: nobody tells when the last of them has heard
        min(each.events for each in followers) < sent and time.monotonic() < deadline_s
    ):
        await asyncio.sleep(0.1)
    late_s = time.monotonic() - began - wall_s
    used_s = cpu_s(served.pid) - before_s
    least = min(each.events for each in followers)
    row(
        f"{FOLLOWERS} followers of /v1/events at {sent / wall_s:.0f} events/s, of a core",
        f"{percent:.0f} %",
        f"≤ 30 %   ({used_s / sent / FOLLOWERS * 1e6:.1f} µs an event and follower;"
        f" {least} of {sent} heard by all, the last {late_s:.1f} s late)",
    )
    for transport in opened:
        transport.close()
    await bus.close()


async def _events(writer: Writer, bus: NatsBus) -> int:
    """Append and tell at the rate, as far as this machine gets; how many there were."""
    events: list[Event] = []
    number, sent, began = 0, 0, time.monotonic()
    while time.monotonic() - began < SECONDS:
        while len(events) < BATCH:
            number += 1
            events += live(f"new-{number:06d}", number)
        for stored in await writer.append(events[:BATCH]):
            await bus.publish(subjects.log(stored.type), log_messages.encode(stored))
        sent, events = sent + BATCH, events[BATCH:]
        await asyncio.sleep(max(0.0, began + sent / EVENTS_PER_S - time.monotonic()))
    return sent
