"""The NATS driver: every trap of the client library is handled here and nowhere else.

Rule: nothing is buffered for later. While disconnected a publish raises; what was missed is read
from the log. A connection that is closed for good ends the process: its supervisor starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import headrace.bus.lean_driver  # noqa: F401 - before the driver

# isort: split
from nats.aio.client import RawCredentials
from nats.aio.msg import Msg
from nats.errors import (
    Error as NatsError,
)
from nats.errors import (
    MaxPayloadError,
    NoRespondersError,
    OutboundBufferLimitError,
    SlowConsumerError,
)
from nats.js.errors import NoStreamResponseError

from headrace import trust
from headrace.bus import subjects
from headrace.bus.durables import Durables
from headrace.bus.handling import hand_on, handle
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
from headrace.bus.nats_client import HardenedClient, NatsSubscription, Undecodable
from headrace.bus.nats_streams import NatsConsumer, NatsStreams

CONNECT_S = 5
CONNECT_S_MAX = 10.0  # the library would try for ever, also where nobody is
PING_S = 5  # two unanswered pings are a dead peer
RECONNECT_WAIT_S = 0.25  # the library takes fractions
DISCONNECTED_S_MAX = 20.0  # the library can hang on a black-holed connection: abort it after this
REFUSALS = ("authorization violation", "authentication expired", "authentication revoked")
FLUSH_S, CLOSE_S = 1, 1.0  # both together: a supervisor waits

# How every connection is kept up.
_KEPT_UP: dict[str, Any] = {
    "max_outstanding_pings": 2,
    "allow_reconnect": True,
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": RECONNECT_WAIT_S,
    "pending_size": 0,
    "skip_subject_validation": True,  # `subjects.token` has seen to it
}

_LOG = logging.getLogger("headrace.bus")


class NatsBus:
    """One connection. Make it with `connect`."""

    def __init__(self, on_lost: Callable[[], None] | None) -> None:
        self.counters: Counter[str] = Counter()
        self._client = HardenedClient()
        self._streams = NatsStreams(self._client)
        self._on_lost = on_lost
        self._closing = False
        self._consumers: list[NatsConsumer] = []
        self._said: set[str] = set()
        self._watchdog: asyncio.Task[None] | None = None
        self._connecting = True

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        creds_path: str | Path = "",
        creds_text: str = "",
        name: str = "headrace",
        inbox_prefix: str = f"{subjects.SERVICES_INBOX}.headrace",
        certificate: str | Path = "",
        on_lost: Callable[[], None] | None = None,
    ) -> NatsBus:
        """A connection to the server at `url`, with the credentials of a file or a text. At a
        `tls://` address the server must have exactly the certificate in the file `certificate`, or
        without one a certificate that the system trusts. Raises `NotConnected` when the server is
        not there, is another, or refuses them.
        """
        bus = cls(on_lost)
        credentials = RawCredentials(creds_text) if creds_text else str(creds_path) or None
        try:
            connecting = bus._client.connect(
                servers=[url],
                name=name,
                user_credentials=credentials,
                inbox_prefix=inbox_prefix.encode(),
                tls=_tls(certificate) if url.startswith("tls://") else None,
                error_cb=bus._failed,
                closed_cb=bus._closed,
                reconnected_cb=bus._reconnected,
                connect_timeout=CONNECT_S,
                ping_interval=PING_S,
                **_KEPT_UP,
            )
            await asyncio.wait_for(connecting, CONNECT_S_MAX)
        except (TimeoutError, NatsError, OSError, ValueError) as error:
            await bus.close()
            why = error if _is_final(error) else bus._client.last_error or error
            raise NotConnected(f"{url}: {type(why).__name__} {why}") from None
        bus._connecting = False
        bus._watchdog = asyncio.create_task(bus._watch())
        return bus

    @property
    def connected(self) -> bool:
        return bool(self._client.is_connected)

    async def reconnect(self) -> None:
        """Sign in anew, with what the credentials' file says now."""
        with contextlib.suppress(NatsError, OSError):
            await self._client.force_reconnect()

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] = {}) -> None:
        with _as_bus_errors(subject):
            await self._client.publish(subject, data, headers=dict(headers) if headers else None)

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str] = {}, timeout_s: float = 5.0
    ) -> Message:
        with _as_bus_errors(subject):
            answer = await self._client.request(
                subject, data, timeout=timeout_s, headers=dict(headers) if headers else None
            )
            return _message_of(answer)

    async def subscribe(self, subject: str, handler: Handler, group: str = "") -> NatsSubscription:
        async def take(received: Msg) -> None:
            await handle(handler, _message_of(received), self.counters)

        return await self._subscribe(subject, take, group)

    async def listen(self, subject: str, hear: Hear) -> NatsSubscription:
        async def take(received: Msg) -> None:
            hand_on(hear, _message_of(received), self.counters)

        self._client.at_once.add(take)
        return await self._subscribe(subject, take, "")

    async def _subscribe(
        self, subject: str, take: Callable[[Msg], Awaitable[None]], group: str
    ) -> NatsSubscription:
        with _as_bus_errors(subject):
            subscription = await self._client.subscribe(
                subject, queue=group, cb=take, pending_msgs_limit=PENDING_MESSAGES_MAX
            )
            # Heard from here on, not from some time on; `flush` alone overtakes what is pending.
            await self._client._flush_pending(force_flush=True)  # noqa: SLF001
            await self._client.flush(timeout=CONNECT_S)
            return NatsSubscription(self._client, subscription)

    def durables(self, stream: str) -> Durables:
        """The durable consumers that the platform keeps for publishers on a stream."""
        return Durables(self._client, self._streams.context, stream)

    async def ensure_stream(self, spec: StreamSpec) -> StreamState:
        with _as_bus_errors(spec.name):
            return await self._streams.ensure(spec)

    async def stream_state(self, name: str) -> StreamState | None:
        with _as_bus_errors(name):
            return await self._streams.state(name)

    async def delete_stream(self, name: str) -> None:
        with _as_bus_errors(name):
            await self._streams.delete(name)

    async def store(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] = {},
        expected_last_sequence: int | None = None,
    ) -> int:
        with _as_bus_errors(subject):
            return await self._streams.store(subject, data, headers, expected_last_sequence)

    async def consume(
        self, stream: str, durable: str, handler: Handler, subject: str = ""
    ) -> NatsConsumer:
        async def take(message: Message) -> bool:
            return await handle(handler, message, self.counters)

        consumer = NatsConsumer(self._streams.context, stream, durable, take, subject)
        self._consumers.append(consumer)
        return consumer

    async def close(self) -> None:
        self._closing = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        for consumer in self._consumers:
            await consumer.stop()
        with contextlib.suppress(asyncio.TimeoutError, asyncio.CancelledError, NatsError, OSError):
            if self._client.is_connected:
                await self._client.flush(timeout=FLUSH_S)
        closing = asyncio.create_task(self._client.close())
        await asyncio.wait([closing], timeout=CLOSE_S)
        closing.cancel()

    async def _failed(self, error: Exception) -> None:
        """Whatever the library only tells its error callback."""
        if isinstance(error, SlowConsumerError):
            self.counters["slow_consumer"] += 1
        if isinstance(error, Undecodable):
            self.counters["undecodable"] += 1
        text = f"{type(error).__name__}: {error}"
        if self._connecting and _is_final(error):
            self._client.options["allow_reconnect"] = False  # it raises what it was told
        kind = text[:120]
        self.counters["permission_errors"] += "permissions violation" in text.lower()
        if kind not in self._said and not self._closing:
            self._said.add(kind)
            _LOG.warning("bus error=%s", text)

    async def _reconnected(self) -> None:
        self.counters["reconnects"] += 1
        self._said.clear()

    async def _closed(self) -> None:
        if not self._closing and self._on_lost is not None:
            self._on_lost()

    async def _watch(self) -> None:
        """Abort a connection that neither works nor fails."""
        loop = asyncio.get_running_loop()
        connected_at_s = loop.time()
        while True:
            await asyncio.sleep(PING_S)
            if self._client.is_connected:
                connected_at_s = loop.time()
            elif loop.time() - connected_at_s > DISCONNECTED_S_MAX:
                connected_at_s = loop.time()
                self.counters["aborted"] += 1
                writer = getattr(self._client._transport, "_io_writer", None)  # noqa: SLF001
                if writer is not None:
                    writer.transport.abort()


def _is_final(error: Exception) -> bool:
    """Whether a server would say the same again: it is another one, or does not take the login."""
    refused = any(word in str(error).lower() for word in REFUSALS)
    return refused or isinstance(error, ssl.SSLCertVerificationError)


def _tls(certificate: str | Path) -> ssl.SSLContext:
    return trust.context_of(Path(certificate).read_text(encoding="ascii") if certificate else "")


@contextlib.contextmanager
def _as_bus_errors(subject: str) -> Iterator[None]:
    """The library's exceptions as the bus's own."""
    try:
        yield
    except OutboundBufferLimitError:
        raise NotConnected("not connected") from None
    except (NoRespondersError, NoStreamResponseError):
        raise NoReply(f"nobody listens on {subject}") from None
    except MaxPayloadError:
        raise BusError(f"a message may have at most {PAYLOAD_BYTES_MAX} bytes") from None
    except TimeoutError:
        raise NoReply(f"no answer on {subject} in time") from None
    except (NatsError, OSError, ConnectionError) as error:
        raise NotConnected(f"{type(error).__name__}: {error}") from None


def _message_of(received: Msg) -> Message:
    own_inbox = subjects.inbox_of_sender(received.subject)
    return Message(
        subject=received.subject,
        data=received.data,
        headers=received.headers or {},
        # The sender names any reply subject, and the answer is published with the receiver's rights.
        reply=received.reply if received.reply.startswith(own_inbox) else "",
    )
