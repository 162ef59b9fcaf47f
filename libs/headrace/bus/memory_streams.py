"""Streams and durable consumers of the in-memory bus.

Rule: as JetStream's file streams with limits retention: sequences never repeat within one stream,
a consumer's progress belongs to the stream and goes when the stream goes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from headrace.bus.handling import handle
from headrace.bus.interface import (
    BusError,
    Handler,
    Message,
    StreamSpec,
    StreamState,
    WrongSequence,
)
from headrace.bus.subjects import matches

if TYPE_CHECKING:
    from headrace.bus.memory import MemoryBus

REDELIVERY_S = 1.0  # after a handler's exception, or while the stream or connection is away


class MemoryStream:
    """One stream. `acknowledged` maps a durable consumer to the last sequence it is done with."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.messages: dict[int, Message] = {}
        self.acknowledged: dict[str, int] = {}
        self.changed = asyncio.Event()
        self._last = spec.first_sequence - 1
        self._bytes = 0
        self._ids: dict[str, int] = {}
        self._per_subject: Counter[str] = Counter()

    def state(self) -> StreamState:
        """What the stream holds now."""
        first = next(iter(self.messages), self._last + 1)
        messages = len(self.messages)
        return StreamState(
            first=first,
            last=self._last,
            messages=messages,
            bytes=self._bytes,
            lineage=self.spec.lineage,
        )

    def store(self, message: Message, expected_last: int | None) -> int:
        """Add a message; its sequence."""
        if expected_last is not None and expected_last != self._last:
            raise WrongSequence(f"the last sequence is {self._last}, not {expected_last}")
        message_id = message.headers.get("Nats-Msg-Id")
        if message_id in self._ids:
            return self._ids[message_id]
        if 0 < self.spec.message_bytes_max < len(message.data):
            raise BusError(f"stream {self.spec.name} takes no message as large")
        self._make_room(message)
        self._last += 1
        self.messages[self._last] = msgspec.structs.replace(message, sequence=self._last, reply="")
        self._bytes += len(message.data)
        self._per_subject[message.subject] += 1
        if message_id:
            self._ids[message_id] = self._last
        self.changed.set()
        return self._last

    def worked(self, consumer: str, sequence: int) -> None:
        """The consumer is done with this message."""
        self.acknowledged[consumer] = sequence
        if self.spec.is_work_queue and sequence in self.messages:
            self._drop(sequence)

    def vanish(self) -> None:
        """The stream is gone: consumers that wait on it look again."""
        self.messages.clear()
        self.changed.set()

    def after(self, sequence: int, subject: str) -> Message | None:
        """The oldest message after a sequence whose subject matches; all match an empty one."""
        for number, message in self.messages.items():
            if number > sequence and (not subject or matches(subject, message.subject)):
                return message
        return None

    def _make_room(self, message: Message) -> None:
        per_subject = self.spec.messages_per_subject_max
        crowded = 0 < per_subject <= self._per_subject[message.subject]
        full = self.spec.bytes_max > 0 and self._bytes + len(message.data) > self.spec.bytes_max
        if self.spec.discard_new and (crowded or full):
            raise BusError(f"stream {self.spec.name} is full")
        if crowded:
            self._drop(next(n for n, m in self.messages.items() if m.subject == message.subject))
        while full and self.messages:
            self._drop(next(iter(self.messages)))
            full = self._bytes + len(message.data) > self.spec.bytes_max

    def _drop(self, sequence: int) -> None:
        dropped = self.messages.pop(sequence)
        self._bytes -= len(dropped.data)
        self._per_subject[dropped.subject] -= 1


class MemoryConsumer:
    """A durable consumer: one message at a time, in order, again after an exception."""

    def __init__(
        self,
        bus: MemoryBus,
        streams: dict[str, MemoryStream],
        stream: str,
        durable: str,
        *,
        handler: Handler,
        subject: str,
    ) -> None:
        self._bus, self._streams, self._stream = bus, streams, stream
        self._durable, self._handler, self._subject = durable, handler, subject
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            stream = self._streams.get(self._stream)
            if stream is None or not self._bus.connected:
                await asyncio.sleep(REDELIVERY_S)
                continue
            message = stream.after(stream.acknowledged.get(self._durable, 0), self._subject)
            if message is None:
                stream.changed.clear()
                await stream.changed.wait()
            elif await handle(self._handler, message, self._bus.counters):
                stream.worked(self._durable, message.sequence)
            else:
                await asyncio.sleep(REDELIVERY_S)
