"""What a bus is, whoever carries it: NATS in production, memory in simulation.

Rule: the bus may lose, repeat, delay or reorder any message, and nothing that matters may depend on
it not doing so. Every implementation passes `tests/contract/test_bus.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

PAYLOAD_BYTES_MAX = 1_048_576  # NATS's own default; larger messages are refused by the server
PENDING_MESSAGES_MAX = 65_536  # per subscription; beyond it messages are dropped and counted


class BusError(Exception):
    """The bus could not do what was asked."""


class NoReply(BusError):
    """Nobody answered in time; whether the request was seen is unknown: repeat with the same key."""


class NotConnected(BusError):
    """The message was not sent: nothing is buffered for later."""


class WrongSequence(BusError):
    """The stream's last sequence is not the expected one: another writer, or a rebuilt stream."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as received. `reply` is where an answer goes; empty when none is expected."""

    subject: str
    data: bytes
    headers: Mapping[str, str] = {}
    reply: str = ""
    sequence: int = 0  # of the stream it came from; 0 on the core bus


Handler = Callable[[Message], Awaitable[None]]
Hear = Callable[[Message], None]


class StreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A JetStream stream: file storage, limits retention. `first_sequence` lets sequence equal
    log position from a position on. `discard_new` refuses when full instead of dropping old; in a work
    queue a message goes when the one consumer that the stream may have has acknowledged it. A stream
    that strangers may publish into is not `acknowledged`: the server sends an acknowledgement to
    whatever subject the sender names, with rights that the sender does not have. It gives `receipts`
    instead: the headers of a message that was stored, on the message's own subject with the first of
    these two prefixes replaced by the second, which no sender can choose. `lineage` says for good of
    which log it has events.
    """

    name: str
    subjects: tuple[str, ...]
    age_s_max: int
    bytes_max: int
    messages_per_subject_max: int = -1
    message_bytes_max: int = -1  # with headers
    discard_new: bool = False
    is_work_queue: bool = False
    first_sequence: int = 1
    acknowledged: bool = True
    receipts: tuple[str, str] | None = None  # prefixes of subjects, without the last dot
    lineage: str = ""


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream holds: `last` is 0, or `first - 1`, when it is empty. `bytes` are as the server
    counts them, with what it needs for each message.
    """

    first: int
    last: int
    messages: int
    bytes: int
    lineage: str = ""


class Subscription(Protocol):
    """A running subscription or consumer."""

    async def stop(self) -> None:
        """Stop receiving; returns when the handler is not running any more."""
        ...


class Bus(Protocol):
    """The core bus and the streams on it."""

    @property
    def connected(self) -> bool:
        """Whether messages can be sent right now."""
        ...

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] = {}) -> None:
        """Send once, to whoever listens now. Raises `NotConnected`; nothing is kept for later."""
        ...

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str] = {}, timeout_s: float = 5.0
    ) -> Message:
        """Send and wait for one answer. Raises `NoReply`, `NotConnected`."""
        ...

    async def subscribe(self, subject: str, handler: Handler, group: str = "") -> Subscription:
        """Call `handler` for each message, one after the other. An exception in it is counted and
        logged, and the next message is handled. `group` shares messages among its members.
        """
        ...

    async def listen(self, subject: str, hear: Hear) -> Subscription:
        """Call `hear` for each message when it comes: it takes note and waits for nothing. An
        exception in it is counted and logged, and the next message is heard.
        """
        ...

    async def ensure_stream(self, spec: StreamSpec) -> StreamState:
        """Create the stream, or bring its limits to `spec`."""
        ...

    async def stream_state(self, name: str) -> StreamState | None:
        """What the stream holds; None when there is no such stream."""
        ...

    async def delete_stream(self, name: str) -> None:
        """Forget the stream; nothing happens when it does not exist."""
        ...

    async def store(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] = {},
        expected_last_sequence: int | None = None,
    ) -> int:
        """Put one message into the stream that captures `subject`; its sequence.

        Raises `WrongSequence`, `NotConnected`, and `NoReply` when the outcome is unknown.
        """
        ...

    async def consume(
        self, stream: str, durable: str, handler: Handler, subject: str = ""
    ) -> Subscription:
        """Work through the stream from the oldest unacknowledged message on, one at a time and in
        order; a message is acknowledged when `handler` returns, and comes again after an exception.
        Survives reconnects, restarts and a recreated stream.
        """
        ...

    async def close(self) -> None:
        """Stop everything and disconnect, within 2 s."""
        ...
