"""JetStream: streams, stored messages and durable consumers of the NATS driver.

Rule: a stream is a cache that may vanish; whoever writes or reads one copes with that. Only
acknowledged pulls and expected sequences are used, never asynchronous publishes or ordered
consumers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RePublish,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError, BadRequestError, NoStreamResponseError, NotFoundError

from headrace.bus.handling import end
from headrace.bus.interface import BusError, Message, StreamSpec, StreamState, WrongSequence

JETSTREAM_S = 5.0
STORE_TRIES = 3  # while a stream's leader changes nobody answers
STORE_WAIT_S = 0.25
FETCH_S = 5.0  # one long pull; an empty one is normal
BACKOFF_S = 1.0  # when the stream or consumer is away, and before a failed message comes again
ACK_WAIT_S = 6.0  # a message whose consumer died comes again; whoever works on it says so
# The least that the server takes: who names a message first could have another's of that name dropped.
DUPLICATE_WINDOW_S = 0.1
_LINEAGE = "headrace-lineage"  # in a stream's metadata
_WRONG_LAST_SEQUENCE = (10071, 10164)

_LOG = logging.getLogger("headrace.bus")


class NatsStreams:
    """The streams of one connection."""

    def __init__(self, client: Client) -> None:
        self.context: JetStreamContext = client.jetstream(timeout=JETSTREAM_S)

    async def ensure(self, spec: StreamSpec) -> StreamState:
        """Create the stream or bring its limits to `spec`."""
        config = StreamConfig(
            name=spec.name,
            subjects=list(spec.subjects),
            retention=(
                RetentionPolicy.WORK_QUEUE if spec.is_work_queue else RetentionPolicy.LIMITS
            ),
            storage=StorageType.FILE,
            max_age=spec.age_s_max,
            max_bytes=spec.bytes_max,
            max_msgs_per_subject=spec.messages_per_subject_max,
            max_msg_size=spec.message_bytes_max,
            discard=DiscardPolicy.NEW if spec.discard_new else DiscardPolicy.OLD,
            discard_new_per_subject=spec.discard_new and spec.messages_per_subject_max > 0,
            first_seq=spec.first_sequence if spec.first_sequence > 1 else None,
            duplicate_window=DUPLICATE_WINDOW_S,
            no_ack=not spec.acknowledged,
            republish=_republishing(spec.receipts),
            metadata={_LINEAGE: spec.lineage} if spec.lineage else None,
        )
        try:
            await self.context.add_stream(config)
        except BadRequestError:
            config.first_seq = None
            await self.context.update_stream(config)
        state = await self.state(spec.name)
        if state is None:
            raise BusError(f"stream {spec.name} vanished while it was made")
        return state

    async def state(self, name: str) -> StreamState | None:
        """What the stream holds; None when there is none."""
        try:
            info = await self.context.stream_info(name)
        except NotFoundError:
            return None
        state = info.state
        return StreamState(
            first=state.first_seq,
            last=state.last_seq,
            messages=state.messages,
            bytes=state.bytes,
            lineage=(info.config.metadata or {}).get(_LINEAGE, ""),
        )

    async def delete(self, name: str) -> None:
        """Forget the stream."""
        with contextlib.suppress(NotFoundError):
            await self.context.delete_stream(name)

    async def store(
        self, subject: str, data: bytes, headers: Mapping[str, str], expected: int | None
    ) -> int:
        """Store one message; its sequence. Raises `WrongSequence`."""
        all_headers = dict(headers)
        if expected is not None:
            all_headers["Nats-Expected-Last-Sequence"] = str(expected)
        for tries_left in reversed(range(STORE_TRIES)):
            try:
                ack = await self.context.publish(subject, data, headers=all_headers or None)
            except NoStreamResponseError:
                if not tries_left:
                    raise
                await asyncio.sleep(STORE_WAIT_S)
            except APIError as error:
                if error.err_code in _WRONG_LAST_SEQUENCE:
                    raise WrongSequence(str(error.description)) from None
                raise BusError(f"{subject}: {error.description}") from None
            else:
                return int(ack.seq)
        raise AssertionError("unreachable")


def _republishing(receipts: tuple[str, str] | None) -> RePublish | None:
    if receipts is None:
        return None
    stored, told = receipts
    return RePublish(src=f"{stored}.>", dest=f"{told}.>", headers_only=True)


class NatsConsumer:
    """A durable pull consumer: one message at a time, in order, until acknowledged."""

    def __init__(
        self,
        context: JetStreamContext,
        stream: str,
        durable: str,
        take: Callable[[Message], Awaitable[bool]],
        subject: str,
    ) -> None:
        self._context, self._stream, self._durable = context, stream, durable
        self._take, self._subject = take, subject
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end(self._task)

    async def _run(self) -> None:
        while True:
            try:
                await self._work()
            except Exception as error:  # the library's own and whatever else it lets through
                if not isinstance(error, NotFoundError | NoStreamResponseError):
                    _LOG.info("consumer %s waits error=%s", self._durable, type(error).__name__)
                await asyncio.sleep(BACKOFF_S)

    async def _work(self) -> None:
        """Bind to the consumer, made anew if it is gone, and pull until something breaks."""
        config = ConsumerConfig(
            durable_name=self._durable,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=1,
            max_deliver=-1,
            filter_subject=self._subject or None,
        )
        await self._context.add_consumer(self._stream, config)
        pull = await self._context.pull_subscribe_bind(self._durable, self._stream)
        try:
            while True:
                try:
                    (received,) = await pull.fetch(1, timeout=FETCH_S)
                except TimeoutError:
                    await self._context.consumer_info(self._stream, self._durable)
                    continue
                await self._handle(received)
        finally:
            with contextlib.suppress(NatsError, OSError):
                await pull.unsubscribe()

    async def _handle(self, received: Msg) -> None:
        message = Message(
            subject=received.subject,
            data=received.data,
            headers=received.headers or {},
            sequence=received.metadata.sequence.stream,
        )
        working = asyncio.create_task(_say_in_progress(received))
        try:
            taken = await self._take(message)
        except asyncio.CancelledError:
            with contextlib.suppress(NatsError, OSError):
                await received.nak()
            raise
        finally:
            working.cancel()
        if taken:
            await received.ack()
        else:
            await received.nak(delay=BACKOFF_S)


async def _say_in_progress(received: Msg) -> None:
    """Keep the server from giving the message to somebody else."""
    while True:
        await asyncio.sleep(ACK_WAIT_S / 3)
        with contextlib.suppress(NatsError, OSError):
            await received.in_progress()
