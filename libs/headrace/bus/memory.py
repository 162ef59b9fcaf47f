"""The in-memory twin of the bus: one `MemoryBroker`, one `MemoryBus` per client.

Rule: everything happens through the running loop's `call_later`, so that on a loop of virtual time
the same seed gives the same history. Faults are asked for by the broker's hooks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Mapping

from headrace.bus.handling import handle
from headrace.bus.interface import (
    PAYLOAD_BYTES_MAX,
    PENDING_MESSAGES_MAX,
    BusError,
    Handler,
    Hear,
    Message,
    NoReply,
    NotConnected,
    StreamSpec,
    StreamState,
)
from headrace.bus.memory_streams import MemoryConsumer, MemoryStream
from headrace.bus.subjects import matches

Faults = Callable[[Message], list[float]]


def _no_faults(_message: Message) -> list[float]:
    return [0.0]


class MemoryBroker:
    """Carries messages between its clients and keeps the streams.

    `deliver_faults(message)` gives the delay in seconds of each delivery: an empty list loses the
    message, two entries repeat it, different delays reorder.
    """

    def __init__(self) -> None:
        self.deliver_faults: Faults = _no_faults
        self.streams: dict[str, MemoryStream] = {}
        self.clients: dict[str, MemoryBus] = {}
        self._cut: set[str] = set()
        self._turn: Counter[str] = Counter()

    def disconnect(self, name: str) -> None:
        """Cut one client off: it can neither send nor hear."""
        self._cut.add(name)

    def connect(self, name: str) -> None:
        """Let the client back in; what it missed stays missed."""
        self._cut.discard(name)

    def is_connected(self, name: str) -> bool:
        """Whether the client is not cut off."""
        return name not in self._cut

    def wipe(self) -> None:
        """Forget every stream with everything in it, as a server that lost its disk."""
        for stream in self.streams.values():
            stream.vanish()
        self.streams.clear()

    def route(self, message: Message) -> int:
        """Hand a message to every subscription that matches; how many there are."""
        members: dict[tuple[str, str], list[MemorySubscription]] = {}
        takers: list[MemorySubscription] = []
        for client in list(self.clients.values()):
            for subscription in client.subscriptions:
                if not matches(subscription.subject, message.subject):
                    continue
                if subscription.group:
                    key = (subscription.group, subscription.subject)
                    members.setdefault(key, []).append(subscription)
                else:
                    takers.append(subscription)
        for (group, subject), group_members in members.items():
            self._turn[f"{group} {subject}"] += 1
            takers.append(group_members[self._turn[f"{group} {subject}"] % len(group_members)])
        loop = asyncio.get_running_loop()
        for taker in takers:
            for delay_s in self.deliver_faults(message):
                loop.call_later(delay_s, taker.deliver, message)
        return len(takers)

    def stream_of(self, subject: str) -> MemoryStream | None:
        """The stream that captures a subject."""
        for stream in self.streams.values():
            if any(matches(pattern, subject) for pattern in stream.spec.subjects):
                return stream
        return None


class MemorySubscription:
    """One subscription: a queue and a task that calls the handler, one message after the other."""

    def __init__(self, bus: MemoryBus, subject: str, handler: Handler, group: str) -> None:
        self.subject, self.group = subject, group
        self._bus, self._handler = bus, handler
        self._queue: deque[Message] = deque()
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def deliver(self, message: Message) -> None:
        """Called by the broker."""
        if not self._bus.connected or self not in self._bus.subscriptions:
            return
        if len(self._queue) >= PENDING_MESSAGES_MAX:
            self._bus.counters["dropped"] += 1
            return
        self._queue.append(message)
        self._wake.set()

    async def stop(self) -> None:
        if self in self._bus.subscriptions:
            self._bus.subscriptions.remove(self)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await handle(self._handler, self._queue.popleft(), self._bus.counters)


class MemoryBus:
    """One client of a `MemoryBroker`."""

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._inbox = 0
        self.subscriptions: list[MemorySubscription] = []
        self.consumers: list[MemoryConsumer] = []
        self.counters: Counter[str] = Counter()
        broker.clients[name] = self

    @property
    def connected(self) -> bool:
        return self._broker.is_connected(self._name) and self._name in self._broker.clients

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] = {}) -> None:
        self._send(Message(subject=subject, data=data, headers=headers))

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str] = {}, timeout_s: float = 5.0
    ) -> Message:
        self._inbox += 1
        inbox = f"_INBOX_{self._name}.{self._inbox}"
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        async def take(message: Message) -> None:
            if not answered.done():
                answered.set_result(message)

        subscription = await self.subscribe(inbox, take)
        try:
            message = Message(subject=subject, data=data, headers=headers, reply=inbox)
            if not self._send(message):
                raise NoReply(f"nobody listens on {subject}")
            async with asyncio.timeout(timeout_s):  # `wait_for` can lose a cancellation
                return await answered
        except TimeoutError:
            raise NoReply(f"no answer on {subject} within {timeout_s} s") from None
        finally:
            await subscription.stop()

    async def subscribe(
        self, subject: str, handler: Handler, group: str = ""
    ) -> MemorySubscription:
        subscription = MemorySubscription(self, subject, handler, group)
        self.subscriptions.append(subscription)
        return subscription

    async def listen(self, subject: str, hear: Hear) -> MemorySubscription:
        async def take(message: Message) -> None:
            hear(message)

        return await self.subscribe(subject, take)

    async def ensure_stream(self, spec: StreamSpec) -> StreamState:
        self._connected()
        stream = self._broker.streams.get(spec.name)
        if stream is None:
            stream = self._broker.streams[spec.name] = MemoryStream(spec)
        stream.spec = spec
        return stream.state()

    async def stream_state(self, name: str) -> StreamState | None:
        self._connected()
        stream = self._broker.streams.get(name)
        return stream.state() if stream else None

    async def delete_stream(self, name: str) -> None:
        self._connected()
        stream = self._broker.streams.pop(name, None)
        if stream is not None:
            stream.vanish()

    async def store(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] = {},
        expected_last_sequence: int | None = None,
    ) -> int:
        self._connected()
        if len(data) > PAYLOAD_BYTES_MAX:
            raise BusError(f"a message may have at most {PAYLOAD_BYTES_MAX} bytes")
        stream = self._broker.stream_of(subject)
        if stream is None:
            raise NoReply(f"no stream captures {subject}")
        message = Message(subject=subject, data=data, headers=headers)
        sequence = stream.store(message, expected_last_sequence)
        self._broker.route(message)
        self._give_receipt(stream, message)
        return sequence

    async def consume(
        self, stream: str, durable: str, handler: Handler, subject: str = ""
    ) -> MemoryConsumer:
        consumer = MemoryConsumer(
            self, self._broker.streams, stream, durable, handler=handler, subject=subject
        )
        self.consumers.append(consumer)
        return consumer

    async def close(self) -> None:
        for subscription in list(self.subscriptions):
            await subscription.stop()
        for consumer in self.consumers:
            await consumer.stop()
        self._broker.clients.pop(self._name, None)

    def _send(self, message: Message) -> int:
        self._connected()
        if len(message.data) > PAYLOAD_BYTES_MAX:
            raise BusError(f"a message may have at most {PAYLOAD_BYTES_MAX} bytes")
        stream = self._broker.stream_of(message.subject)
        if stream is not None:
            expected = message.headers.get("Nats-Expected-Last-Sequence")
            with contextlib.suppress(BusError):  # nobody waits for an acknowledgement
                stream.store(message, int(expected) if expected else None)
                self._give_receipt(stream, message)
        return self._broker.route(message)

    def _give_receipt(self, stream: MemoryStream, message: Message) -> None:
        stored, told = stream.spec.receipts or ("", "")
        if told and message.subject.startswith(f"{stored}."):
            subject = told + message.subject.removeprefix(stored)
            self._broker.route(Message(subject=subject, data=b"", headers=message.headers))

    def _connected(self) -> None:
        if not self.connected:
            raise NotConnected(f"{self._name} is not connected")
